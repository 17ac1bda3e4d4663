import type { TestProject } from 'vitest/node';
import { chromiumPath, startChromium } from '../support/chromium.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The path of a Chromium; absent if it does not start here. */
    chromium?: string;
  }
}

const required = Boolean(process.env.REQUIRE_BROWSER);

/** Provides a Chromium, or else prints why the tests of pages are skipped or failed. */
export default async function setUp(project: TestProject): Promise<void> {
  try {
    const path = await chromiumPath();
    await (await startChromium(path)).close();
    project.provide('chromium', path);
  } catch (error) {
    const outcome = required ? 'failed' : 'skipped';
    const [why] = (error as Error).message.split('\n');
    console.info(`${outcome}: pages cannot be tested here, since Chromium does not start: ${why}`);
    if (required) process.exitCode = 1;
  }
}
