import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { appOver } from '../support/appOver.ts';

test('the page and its modules need no token, have the headers of pages, and only the import map inline', async () => {
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
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\s(src|type="importmap")=?)/);
  expect(await get('/style.css')).toMatch(/^text\/css/);
  expect(await get('/icon.svg')).toMatch(/^image\/svg\+xml/);

  // All modules that are loaded: the import map has each import that is not relative.
  const { imports }: { imports: Record<string, string> } = JSON.parse(
    /<script type="importmap">(.*?)<\/script>/s.exec(html)?.[1] ?? '',
  );
  const modules = new Set([`${url}/${/<script type="module" src="(.*?)"/.exec(html)?.[1]}`]);
  for (const module of modules) {
    const text = await get(module.slice(`${url}/audit`.length));
    expect(text).toMatch(/^text\/javascript/);
    for (const [, name = ''] of text.matchAll(/^(?:import |.*? from )'([^']+)';$/gm)) {
      if (!name.startsWith('.')) expect(Object.keys(imports)).toContain(name);
      modules.add(name.startsWith('.') ? new URL(name, module).href : new URL(imports[name] ?? '', url).href);
    }
  }
  const rooms = new Set(
    [...modules].map((module) => module.slice(`${url}/audit/`.length).replace(/\/[^/]*$/, '')),
  );
  expect([...rooms].toSorted()).toEqual([
    'app',
    'canonicalize',
    'digest',
    'event-log/erasure',
    'hashes',
    'histogram',
    'page',
    'tlog',
    'tlog/crypto',
    'tlog/merkle',
    'tlog/notes',
  ]);

  const etag = (await fetch(`${url}/audit`)).headers.get('etag') ?? '';
  expect((await fetch(`${url}/audit`, { headers: { 'if-none-match': etag } })).status).toBe(304);
  for (const path of [
    '/app/../service.ts',
    '/monitor/monitor.ts',
    '/..%2fpackage.json',
    '/../../package.json',
    '/constructor',
  ])
    await refusedWith(40401, await fetch(`${url}/audit${path}`));
});
