import { setGlobalProxyFromEnv } from 'node:http';
import { listen } from '@event-sourced/testing/rawHttp';
import { expect, onTestFinished, test } from 'vitest';
import { useProxyFromEnv } from '../../src/process/proxy.ts';

const restoreAgents = () =>
  onTestFinished(setGlobalProxyFromEnv({ HTTP_PROXY: 'http://proxy.invalid', NO_PROXY: '*' }));

/** Requests a URL through a proxy with these variables; returns who was asked. */
async function requested(env: Record<string, string>, url = 'http://a.invalid/'): Promise<'proxy' | 'host'> {
  const asked: string[] = [];
  const { port } = await listen(({ url = '' }, response) => {
    asked.push(url);
    response.end();
  });
  restoreAgents();
  useProxyFromEnv({ HTTP_PROXY: `http://127.0.0.1:${port}`, ...env });
  await fetch(url).catch(() => {});
  return asked.length > 0 ? 'proxy' : 'host';
}

test.each(['', 'b.invalid', 'a.invalid:81', 'b.a.invalid'])(
  'with NO_PROXY=%s a request goes through the proxy',
  async (NO_PROXY) => {
    expect(await requested({ NO_PROXY })).toBe('proxy');
  },
);

test.each(['a.invalid', 'invalid', 'b.invalid a.invalid', '*'])(
  'with NO_PROXY=%s a request goes to its host',
  async (NO_PROXY) => {
    expect(await requested({ NO_PROXY })).toBe('host');
  },
);

test.each(['http://127.0.0.1:1/', 'http://localhost:1/', 'http://[::1]:1/'])(
  'a request to this machine goes to it: %s',
  async (url) => {
    expect(await requested({ NO_PROXY: 'b.invalid' }, url)).toBe('host');
  },
);

test('variables in lower case come first, and an empty one does not count', async () => {
  expect(await requested({ no_proxy: 'b.invalid', NO_PROXY: '*' })).toBe('proxy');
  expect(await requested({ no_proxy: '', NO_PROXY: '*' })).toBe('host');
});

test.each([{ HTTP_PROXY: 'proxy.example:3128' }, { https_proxy: 'http://alice:secret@:x' }])(
  '%j is refused without its password',
  (env) => {
    restoreAgents();
    expect(() => useProxyFromEnv(env)).toThrow(/must be URLs of proxies/);
    expect(() => useProxyFromEnv(env)).not.toThrow('secret');
  },
);
