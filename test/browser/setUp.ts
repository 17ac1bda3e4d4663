import type { TestProject } from 'vitest/node';
import { startChromium } from './chromium.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where puppeteer connects to the Chromium of all files; absent if it does not start here. */
    chromium?: string;
  }
}

/** Provides a Chromium until all files are over, or else prints why the tests of pages are skipped or failed. */
export default async function setUp(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const required = project.vitest.projects.length === 1; // these tests alone were asked for
  try {
    const browser = await startChromium();
    project.provide('chromium', browser.wsEndpoint());
    return () => browser.close();
  } catch (error) {
    const outcome = required ? 'failed' : 'skipped';
    const [why] = (error as Error).message.split('\n');
    console.info(`${outcome}: pages cannot be tested here, since Chromium does not start: ${why}`);
    if (required) process.exitCode = 1;
    return undefined;
  }
}
