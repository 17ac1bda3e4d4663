import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Browser } from 'puppeteer-core';
import { ROOT } from '../support/process.ts';

/** Debian's, for example; without it, the one of @sparticuz/chromium. */
const { CHROMIUM } = process.env;

/** Resolves no names, so that a page only reaches this machine; root cannot use the sandbox. */
const ARGS = ['--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', '--no-sandbox'];

/** Ends a hang of the browser, in milliseconds. */
export const TIMEOUT_MS = 300_000;

/** Starts a Chromium. The caller must close it. @throws Error if it does not start here */
export async function startChromium(): Promise<Browser> {
  if (!existsSync(join(import.meta.dirname, 'node_modules')))
    throw new Error('npm ci --prefix test/browser installs it');
  const { launch } = await import('puppeteer-core');
  const executablePath = CHROMIUM || join(await extracted(), 'chromium');
  const headless = CHROMIUM ? true : 'shell';
  return launch({ executablePath, headless, args: ARGS, timeout: TIMEOUT_MS, protocolTimeout: TIMEOUT_MS });
}

/** The directory with the Chromium of the package, which takes seconds to extract. */
async function extracted(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve('@sparticuz/chromium');
  const { version } = JSON.parse(readFileSync(join(dirname(entry), '../package.json'), 'utf8'));
  const cache = join(ROOT, 'node_modules/.cache');
  const dir = join(cache, `chromium-${version}`);
  if (existsSync(dir)) return dir;
  mkdirSync(cache, { recursive: true });
  const { default: chromium } = await import('@sparticuz/chromium');
  // It extracts into TMPDIR. Another process must not find a file that is not complete yet.
  const incomplete = mkdtempSync(`${dir}-`);
  const { TMPDIR = '' } = process.env;
  try {
    process.env.TMPDIR = incomplete;
    await chromium.executablePath();
    if (!existsSync(dir)) renameSync(incomplete, dir);
  } finally {
    if (TMPDIR === '') delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    rmSync(incomplete, { recursive: true, force: true });
  }
  return dir;
}
