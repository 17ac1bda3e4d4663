import { createHash } from 'node:crypto';
import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { appOver } from '../support/appOver.ts';

test('the page needs no token, has the headers of pages, and loads three files that browsers keep', async () => {
  const { url } = await appOver({}, { pages: true });
  const get = async (path: string): Promise<[string, Response]> => {
    const response = await fetch(`${url}/${path}`);
    expect([path, response.status]).toEqual([path, 200]);
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    return [await response.text(), response];
  };
  const [html, { headers }] = await get('audit');
  expect(headers.get('content-type')).toMatch(/^text\/html/);
  expect(headers.get('cache-control')).toBe('no-cache');
  const files = new Set([...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path));
  expect([...files].map((path) => path.replace(/\?.*/, '')).toSorted()).toEqual([
    'audit/icon.svg',
    'audit/page/page.js',
    'audit/page/style.css',
  ]);
  for (const path of files) {
    const [text, file] = await get(path);
    expect(file.headers.get('cache-control')).toContain('immutable');
    expect(path).toContain(createHash('sha256').update(text).digest('hex').slice(0, 32));
  }

  const etag = headers.get('etag') ?? '';
  expect((await fetch(`${url}/audit`, { headers: { 'if-none-match': etag } })).status).toBe(304);
  for (const path of [
    '/entityType.ts',
    '/app/../service.ts',
    '/..%2fpackage.json',
    '/../../package.json',
    '/constructor',
  ])
    await refusedWith(40401, await fetch(`${url}/audit${path}`));
});

test('without its script, the page has no control, and neither script nor style inline', async () => {
  const { url } = await appOver({}, { pages: true });
  const html = await (await fetch(`${url}/audit`)).text();
  expect(html).not.toMatch(/<(form|input|button|select|textarea|a)\b/);
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
});
