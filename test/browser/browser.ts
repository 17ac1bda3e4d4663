import type { BrowserContext, Page } from 'puppeteer-core';
import { inject, onTestFinished } from 'vitest';
import { TIMEOUT_MS } from './chromium.ts';

const browserWSEndpoint = inject('chromium');

/** Whether Chromium starts here; if not, the set-up of the project has printed why. */
export const HAS_BROWSER = browserWSEndpoint !== undefined;

type OpenPage = {
  page: Page;
  /** The URLs that the page has requested. */
  requests: string[];
  /** Requests to other origins, errors on the console, and uncaught errors. */
  problems: string[];
};

/** One profile for all tests of this process: pages of one service share what the browser has loaded. */
let profile: Promise<BrowserContext> | undefined;

async function openProfile(): Promise<BrowserContext> {
  const { connect } = await import('puppeteer-core');
  const browser = await connect({
    browserWSEndpoint: browserWSEndpoint as string,
    protocolTimeout: TIMEOUT_MS,
    defaultViewport: { width: 1280, height: 900 },
  });
  return browser.createBrowserContext();
}

/** Opens a page, until the end of the test. */
export async function openPage(url: string): Promise<OpenPage> {
  profile ??= openProfile();
  const page = await (await profile).newPage();
  onTestFinished(() => page.close());
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
  await page.goto(url);
  return { page, requests, problems };
}
