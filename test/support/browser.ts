import type { Browser, Page, Viewport } from 'puppeteer-core';
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest';
import { TIMEOUT_MS } from './chromium.ts';

const browserWSEndpoint = inject('chromium');

/** Whether Chromium starts here; if not, the set-up of the project has printed why. */
export const HAS_BROWSER = browserWSEndpoint !== undefined;

const SIZE: Viewport = { width: 1280, height: 900 };

export type OpenPage = {
  page: Page;
  /** The URLs that the page has requested. */
  requests: string[];
  /** Requests to other origins, errors on the console, and uncaught errors. */
  problems: string[];
};

/** The Chromium of all files, for the tests of one. */
export function browserOfFile() {
  let browser: Browser;
  if (browserWSEndpoint !== undefined) {
    beforeAll(async () => {
      const { connect } = await import('puppeteer-core');
      browser = await connect({ browserWSEndpoint, protocolTimeout: TIMEOUT_MS });
    });
    afterAll(() => browser.disconnect());
  }

  /** Opens a page in a profile of its own, until the end of the test. */
  async function open(url: string, size: Viewport = SIZE): Promise<OpenPage> {
    const context = await browser.createBrowserContext();
    onTestFinished(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(TIMEOUT_MS);
    const requests: string[] = [];
    const problems: string[] = [];
    const { origin } = new URL(url);
    page.on('request', (request) => {
      const requested = new URL(request.url());
      requests.push(requested.href);
      const isLocal = ['data:', 'blob:'].includes(requested.protocol);
      if (!isLocal && requested.origin !== origin) problems.push(`request to ${requested.origin}`);
    });
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => problems.push(`uncaught: ${error}`));
    await page.setViewport(size);
    await page.goto(url);
    return { page, requests, problems };
  }
  return { open };
}
