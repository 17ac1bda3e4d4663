import type { Page } from 'puppeteer-core';
import { expect, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';
import { accessibilityProblems } from './axe.ts';
import { HAS_BROWSER, openPage } from './browser.ts';

const { url, as, bearer } = await serviceOfFile({ MERKLE_TREE: 'on' });

const CREATE = '#operations-plants-createPlant';
const LIST = '#operations-plants-listPlants';
const REPLAY = '#operations-audit-replayEvents';
const CHECKPOINT = '#operations-audit-getCheckpoint';

/** Replaces the text of a field. */
async function paste(page: Page, field: string, text: string): Promise<void> {
  await page.locator(field).click();
  await page.keyboard.down('Control');
  await page.keyboard.press('A');
  await page.keyboard.up('Control');
  await page.keyboard.sendCharacter(text);
}

async function authorize(page: Page, authorization: string): Promise<void> {
  await page.locator('.btn.authorize').click();
  const howTo = await page.waitForSelector('.auth-container .renderedMarkdown');
  expect(await howTo?.evaluate(({ textContent }) => textContent)).toContain('bin/plant-store token alice');
  await paste(page, '#auth-bearer-value', authorization.replace('Bearer ', ''));
  const isMasked = `getComputedStyle(document.querySelector('#auth-bearer-value')).webkitTextSecurity`;
  expect(await page.evaluate(isMasked)).toBe('disc');
  await page.locator('.auth-btn-wrapper .authorize').click();
  await page.locator('.auth-btn-wrapper .btn-done').click();
}

const toggle = (page: Page, operation: string) =>
  page.locator(`${operation} .opblock-summary-control`).click();

/** Tries an operation, which is closed; returns the status and the body that the page shows. */
async function tryOut(page: Page, operation: string, body?: string): Promise<[string, string]> {
  await toggle(page, operation);
  await page.waitForSelector(`${operation} .execute`);
  await (await page.$(`${operation} .btn-clear`))?.click(); // the response of an earlier try
  if (body !== undefined) await paste(page, `${operation} textarea.body-param__text`, body);
  await page.locator(`${operation} .execute`).click();
  const shown = async (element: string): Promise<string> => {
    const handle = await page.waitForSelector(`${operation} .live-responses-table .response ${element}`);
    return (await handle?.evaluate(({ textContent }) => textContent?.trim())) ?? '';
  };
  const response: [string, string] = [
    await shown('.response-col_status'),
    await shown('.highlight-code pre'),
  ];
  await toggle(page, operation); // each open one is rendered again at every change
  return response;
}

test.skipIf(!HAS_BROWSER)(
  'the API reference is accessible in both colour schemes; says how to get a token; links to the audit page; shows an error response without a token; creates and lists plants and replays the log with a pasted one',
  async () => {
    await as('alice').create(1, { name: 'Oak' });
    const { page, requests, problems } = await openPage(`${url}/docs`);
    await page.waitForSelector('.opblock-summary-control');
    expect(await page.$eval('h1, h2', ({ firstChild }) => firstChild?.textContent)).toBe(await page.title());
    expect(await page.$$eval('.info a', (links) => links.map(({ href }) => href))).toContain(`${url}/audit`);
    for (const operation of [CREATE, CHECKPOINT]) await toggle(page, operation);
    const top = async (element: string): Promise<number> =>
      (await (await page.waitForSelector(`${CREATE} ${element}`))?.boundingBox())?.y ?? Number.NaN;
    expect(await top('.body-param__text')).toBeLessThan(await top('[data-param-name="traceparent"]'));
    for (const value of ['dark', 'light']) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
      await page.waitForSelector(value === 'dark' ? '.dark-mode' : 'html:not(.dark-mode)');
      await page.waitForFunction('document.getAnimations().length === 0');
      expect(await accessibilityProblems(page), value).toEqual({});
      await page.locator('.btn.authorize').click();
      await page.waitForSelector('#auth-bearer-value');
      expect(await accessibilityProblems(page), value).toEqual({});
      await page.locator('.auth-btn-wrapper .btn-done').click();
    }
    for (const operation of [CREATE, CHECKPOINT]) await toggle(page, operation);

    const [refusedStatus, refused] = await tryOut(page, LIST);
    expect([refusedStatus, JSON.parse(refused)]).toEqual(['401', expect.objectContaining({ error: 40101 })]);
    expect(problems.splice(0)).toEqual([expect.stringContaining('401 (Unauthorized)')]);

    await authorize(page, await bearer('carol', 'audit'));
    const [createStatus, created] = await tryOut(page, CREATE, '{"id":9223372036854775807,"name":"<b>Fern"}');
    expect([createStatus, JSON.parse(created)]).toEqual(['200', { name: '<b>Fern' }]);
    const [listStatus, list] = await tryOut(page, LIST);
    expect([listStatus, JSON.parse(list)]).toEqual(['200', [{ name: '<b>Fern' }]]);
    const [replayStatus, lines] = await tryOut(page, REPLAY);
    const events = lines.split('\n').filter((line) => line.startsWith('{'));
    expect([replayStatus, ...events.map((event) => JSON.parse(event).data)]).toEqual([
      '200',
      { id: '1', user: 'alice', name: 'Oak' },
      { id: '9223372036854775807', user: 'carol', name: '<b>Fern' },
    ]);

    expect(requests).toEqual(expect.arrayContaining([`${url}/openapi.json`, `${url}/events?limit=100`]));
    expect(problems).toEqual([]);
  },
);
