import { setGlobalProxyFromEnv } from 'node:http';
import { listen } from '@event-sourced/testing/rawHttp';
import { expect, onTestFinished, test } from 'vitest';
import { useProxyFromEnv } from '../../src/process/proxy.ts';

const URL = 'http://a.invalid/';

/** Requests the URL with these variables, through a proxy if `HTTP_PROXY` is not among them; returns who was asked. */
async function requested(env: Record<string, string>): Promise<'proxy' | 'host'> {
  const asked: string[] = [];
  const { port } = await listen(({ url = '' }, response) => {
    asked.push(url);
    response.end();
  });
  onTestFinished(setGlobalProxyFromEnv({ HTTP_PROXY: 'http://proxy.invalid', NO_PROXY: '*' })); // restores Node's agents
  useProxyFromEnv({ HTTP_PROXY: `http://127.0.0.1:${port}`, ...env }, [URL]);
  await fetch(URL).catch(() => {});
  return asked.length > 0 ? 'proxy' : 'host';
}

test.each(['', 'b.invalid', 'a.invalid:81', 'b.a.invalid'])(
  'with NO_PROXY=%s a request goes through the proxy',
  async (NO_PROXY) => {
    expect(await requested({ NO_PROXY })).toBe('proxy');
  },
);

test.each([
  ...['a.invalid', 'A.Invalid', 'invalid', '.invalid', '*.invalid', '.a.invalid', 'a.invalid:80'],
  ...['b.invalid a.invalid', ',b.invalid,,a.invalid', '*', 'b.invalid,*', '10.0.0.0/8,a.invalid'],
])('with NO_PROXY=%s a request goes to its host', async (NO_PROXY) => {
  expect(await requested({ NO_PROXY })).toBe('host');
});

test('variables in lower case come first, and an empty one does not count', async () => {
  expect(await requested({ no_proxy: 'b.invalid', NO_PROXY: '*' })).toBe('proxy');
  expect(await requested({ no_proxy: '', NO_PROXY: '*' })).toBe('host');
});

const PROXY = 'http://proxy.example:3128';
const UNSUPPORTED: readonly (readonly [Record<string, string>, string])[] = [
  ...['proxy.example:3128', 'proxy.example', 'socks5://proxy.example', 'http://alice:secret@:x'].map(
    (proxy) => [{ HTTP_PROXY: proxy }, 'HTTP_PROXY must be the URL of a proxy'] as const,
  ),
  [{ https_proxy: 'proxy.example:3128' }, 'HTTPS_PROXY must be the URL of a proxy'],
  ...['10.0.0.0/8', '10.0.0.1-10.0.0.9', '10.', '192.168.*', '*example', 'http://login.example'].map(
    (entry) =>
      [{ HTTP_PROXY: PROXY, NO_PROXY: `b.invalid,${entry}` }, `not ${JSON.stringify(entry)}`] as const,
  ),
];

test.each(UNSUPPORTED)('%j is refused if a request would use it', (env, message) => {
  const urls = 'https_proxy' in env ? ['https://a.invalid'] : [URL];
  expect(() => useProxyFromEnv(env, urls)).toThrow(message);
  expect(() => useProxyFromEnv(env, urls)).not.toThrow('secret');
  expect(() => useProxyFromEnv(env, [])).not.toThrow();
  const direct = ['http://127.0.0.1:3000/keys', 'https://localhost/', 'http://[::1]/', 'http://b.invalid'];
  expect(() => useProxyFromEnv({ ...env, NO_PROXY: env.NO_PROXY ?? 'b.invalid' }, direct)).not.toThrow();
});

test('https uses HTTP_PROXY if there is no HTTPS_PROXY, as Node does', () => {
  expect(() => useProxyFromEnv({ HTTP_PROXY: 'proxy' }, ['https://a.invalid'])).toThrow('HTTP_PROXY must');
});

test('a variable that no request would use may have any value', () => {
  onTestFinished(setGlobalProxyFromEnv({ HTTP_PROXY: 'http://proxy.invalid', NO_PROXY: '*' })); // restores Node's agents
  const [http, https] = [
    { HTTP_PROXY: 'proxy', HTTPS_PROXY: PROXY },
    { HTTP_PROXY: PROXY, HTTPS_PROXY: 'proxy' },
  ];
  expect(() => useProxyFromEnv(http, ['https://a.invalid'])).not.toThrow();
  expect(() => useProxyFromEnv(https, [URL])).not.toThrow();
  expect(() => useProxyFromEnv(http, ['https://a.invalid', URL])).toThrow('HTTP_PROXY must');
});
