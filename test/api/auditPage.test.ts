import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { appOver } from '../support/appOver.ts';

test('the page and its modules need no token, have the headers of pages, and no inline script or style', async () => {
  const { url } = await appOver({}, { pages: true });
  const get = async (path: string): Promise<string> => {
    const response = await fetch(`${url}/audit${path}`);
    expect([path, response.status]).toEqual([path, 200]);
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    return `${response.headers.get('content-type')} ${await response.text()}`;
  };
  const html = await get('');
  expect(html).toMatch(/^text\/html/);
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
  expect(await get('/style.css')).toMatch(/^text\/css/);
  expect(await get('/icon.svg')).toMatch(/^image\/svg\+xml/);

  // All modules that are loaded, and from which packages.
  const modules = new Set(['/main.ts']);
  for (const path of modules) {
    const text = await get(path);
    expect(text).toMatch(/^text\/javascript/);
    expect(text).not.toContain("'node:");
    for (const [, imported = ''] of text.matchAll(/from '([^']+)';$/gm))
      modules.add(new URL(imported, `http://page${path}`).pathname);
  }
  const rooms = new Set([...modules].map((path) => path.split('/').slice(1, -1).join('/')));
  expect([...rooms].toSorted()).toEqual([
    '',
    '@event-sourced/audit/src/page',
    '@event-sourced/audit/src/page/node',
    '@event-sourced/transparency-log/src',
    '@event-sourced/transparency-log/src/entries',
    '@event-sourced/transparency-log/src/merkle',
    '@event-sourced/transparency-log/src/notes',
    '@noble/hashes',
    'plant-store/src/plants',
  ]);

  const etag = (await fetch(`${url}/audit`)).headers.get('etag') ?? '';
  expect((await fetch(`${url}/audit`, { headers: { 'if-none-match': etag } })).status).toBe(304);
  for (const path of [
    '/plant-store/src/service.ts',
    '/..%2fpackage.json',
    '/../../package.json',
    '/constructor',
  ])
    await refusedWith(40401, await fetch(`${url}/audit${path}`));
});
