import type { Page } from 'puppeteer-core';
import { expect, vi } from 'vitest';
import { auditorToken } from '../support/eventStream.ts';
import type { startServiceWithTree } from '../support/service.ts';
import { openPage } from './browser.ts';
import { TIMEOUT_MS } from './chromium.ts';

// What tests of the audit page do with it, and ask.

export const LIVE = '.live[data-state="Live"]';
export const NAMES = '#timeline tbody .name';

/** Fields that have no name, so that nothing can put them into a URL. */
const UNNAMED: Record<string, string> = { token: '#token', key: '.key-field' };

/** Fills fields of the form of a section, and submits it. */
export async function submit(page: Page, section: string, fields: Record<string, string>): Promise<void> {
  for (const [name, value] of Object.entries(fields))
    await page.locator(`${section} ${UNNAMED[name] ?? `[name="${name}"]`}`).fill(value);
  await page.locator(`${section} form .primary`).click();
}

/** The page of an auditor who is signed in, when it is live. */
export async function auditPage({ url, dir }: { url: string; dir: string }) {
  const opened = await openPage(`${url}/audit`);
  await submit(opened.page, '#sign-in', { token: await auditorToken(dir) });
  await opened.page.waitForSelector(LIVE);
  return opened;
}

export type Service = Awaited<ReturnType<typeof startServiceWithTree>>;

/** Waits until the log has signed this number of events. */
export async function signs(service: Service, size: number): Promise<void> {
  await vi.waitFor(
    async () => {
      const checkpoint = await (await service.as('carol', 'audit').request('/checkpoint')).text();
      expect(checkpoint.split('\n')[1]).toBe(`${size}`);
    },
    { timeout: TIMEOUT_MS },
  );
}

/** Erases a user; returns the indices of the records. */
export async function erase(service: Service, user: string): Promise<number[]> {
  const response = await service.as('dora', 'erase').request('/erasures', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ user }),
  });
  return ((await response.json()) as { records: number[] }).records;
}

/** Gives the page a file. */
export async function choose(page: Page, file: string): Promise<void> {
  const [chooser] = await Promise.all([page.waitForFileChooser(), click(page, '.choose')]);
  await chooser.accept([file]);
}

export const click = (page: Page, selector: string): Promise<void> => page.locator(selector).click();

export const texts = (page: Page, selector: string): Promise<string[]> =>
  page.$$eval(selector, (elements) => elements.map((element) => element.textContent?.trim() ?? ''));

/** Waits until these are the texts of the elements. */
export const becomes = (page: Page, selector: string, expected: unknown): Promise<void> =>
  expect.poll(() => texts(page, selector)).toEqual(expected);

/** Keeps files that the page saves; returns a function that waits for the next one. */
export async function catchFiles(page: Page) {
  await page.evaluate(`{
    const contents = new Map();
    globalThis.files = [];
    URL.createObjectURL = (blob) => {
      contents.set('data:,' + contents.size, blob);
      return 'data:,' + (contents.size - 1);
    };
    HTMLAnchorElement.prototype.click = function () {
      files.push([this.download, contents.get(this.href)]);
    };
  }`);
  return async (): Promise<[name: string, text: string]> => {
    await page.waitForFunction('files.length > 0');
    return (await page.evaluate(`{
      const [name, blob] = files.shift();
      blob.text().then((text) => [name, text]);
    }`)) as [string, string];
  };
}
