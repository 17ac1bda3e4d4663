import type { Page } from 'puppeteer-core';
import { expect, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';
import { accessibilityProblems } from './axe.ts';
import { HAS_BROWSER, openPage } from './browser.ts';

const { url, as, bearer } = await serviceOfFile({ MERKLE_TREE: 'on' });

const operation = (id: string) => `section:has(> [id="/${id}"])`;
const CREATE = operation('plants/createPlant');
const LIST = operation('plants/listPlants');
const REPLAY = operation('audit/replayEvents');

/** Sends the form of an operation; returns the status and the body that the page shows. */
async function tryOut(page: Page, section: string, body?: string): Promise<[string, string]> {
  if (!(await page.$(`${section} .try[open]`))) await page.locator(`${section} .try > summary`).click();
  await page.locator(`${section} [type="reset"]`).click();
  if (body !== undefined) await page.locator(`${section} textarea`).fill(body);
  await page.locator(`${section} button:not([type])`).click();
  await page.waitForSelector(`${section} .result[data-complete]`);
  const [status = '', , text = ''] = await page.$$eval(`${section} .result pre`, (parts) =>
    parts.map(({ textContent }) => textContent ?? ''),
  );
  return [status.split(' ')[0] as string, text];
}

test.skipIf(!HAS_BROWSER)(
  'the API reference is accessible in both colour schemes, with all of it open, wide and narrow',
  async () => {
    const { page, problems } = await openPage(`${url}/docs`);
    expect(await page.$eval('h1', ({ firstChild }) => firstChild?.textContent?.trim())).toBe(
      await page.title(),
    );
    expect(await page.$$eval('main a', (links) => links.map(({ href }) => href))).toContain(`${url}/audit`);
    expect(
      await page.$$eval(`${LIST} pre .key`, (keys) => keys.map(({ textContent }) => textContent)),
    ).toEqual(['"name":', '"tag":', '"name":']);
    for (const width of [390, 1440]) {
      await page.setViewport({ width, height: 900 });
      const isListed = await page.$eval('nav a', (link) => link.checkVisibility());
      expect(isListed, 'on a narrow screen, the contents are closed').toBe(width === 1440);
    }
    await page.$$eval('details', (all) => {
      for (const details of all) details.open = true;
    });
    for (const value of ['dark', 'light'])
      for (const width of [1440, 390]) {
        await page.setViewport({ width, height: 900 });
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
        expect(await accessibilityProblems(page), value).toEqual({});
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      }
    expect(problems).toEqual([]);
  },
);

test.skipIf(!HAS_BROWSER)(
  'a hash link leads to an operation; it shows an error without a token, and with one it creates and lists plants and replays the log',
  async () => {
    await as('alice').create(1, { name: 'Oak' });
    const { page, requests, problems } = await openPage(`${url}/docs#/plants/listPlants`);
    expect(await page.$eval(':target', ({ textContent }) => textContent)).toContain('List your plants');
    const [refusedStatus, refused] = await tryOut(page, LIST);
    expect([refusedStatus, JSON.parse(refused)]).toEqual(['401', expect.objectContaining({ error: 40101 })]);
    expect(problems.splice(0)).toEqual([expect.stringContaining('401 (Unauthorized)')]);

    expect(await page.$eval('.token', ({ textContent }) => textContent)).toContain(
      'bin/plant-store token alice',
    );
    await page.locator('#bearer').fill((await bearer('carol', 'audit')).replace('Bearer ', ''));
    const isMasked = `getComputedStyle(document.querySelector('#bearer')).webkitTextSecurity`;
    expect(await page.evaluate(isMasked)).toBe('disc');
    const plant = '{"id":9223372036854775807,"name":"<b>Fern"}';
    expect(await tryOut(page, CREATE, plant)).toEqual(['200', '{"name":"<b>Fern"}']);
    expect(await tryOut(page, LIST)).toEqual(['200', '[{"name":"<b>Fern"}]']);
    const [replayStatus, lines] = await tryOut(page, REPLAY);
    const events = lines.split('\n').filter((line) => line.startsWith('{'));
    expect([replayStatus, ...events.map((event) => JSON.parse(event).data)]).toEqual([
      '200',
      { id: '1', user: 'alice', name: 'Oak' },
      { id: '9223372036854775807', user: 'carol', name: '<b>Fern' },
    ]);
    await page.locator(`${REPLAY} select`).fill('text/event-stream');
    await page.locator(`${REPLAY} button:not([type])`).click();
    const result = JSON.stringify(`${REPLAY} .result`);
    // while the stream goes on
    await page.waitForFunction(`document.querySelector(${result})?.textContent.includes('id: 2')`);
    expect(requests).toEqual(expect.arrayContaining([`${url}/events?limit=100`]));
    expect(problems).toEqual([]);
  },
);
