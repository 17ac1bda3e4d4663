import { statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import type { Page } from 'puppeteer-core';
import { newEventId } from '../../packages/event-log/src/eventId.ts';
import { issueToken } from '../../packages/http/src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../packages/node/src/files/keyFile.ts';
import { formatVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { loadExistingLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';
import { readConfig } from '../../src/config.ts';
import { createPlant } from '../../src/plants/createPlant.ts';
import { startService } from '../../src/service.ts';
import { openStore } from '../../src/stores.ts';
import { startChromium } from './chromium.ts';

// npm run screenshots: writes a picture of each page, wide and narrow, to docs/screenshots/.

const PICTURES = join(import.meta.dirname, '../../docs/screenshots');
const SIZES = [
  { name: 'wide', width: 1600, height: 840, scheme: 'light' },
  { name: 'narrow', width: 400, height: 860, scheme: 'dark' },
] as const;

const USERS = ['alice', 'bob', 'chloé', 'dmitri', 'يسرى'];
const PLANTS = 'Fern,Monstera,Snake plant,Pothos,Aloe vera,Calathea,Rubber plant,Basil'.split(',');
const TAGS = ['indoor', 'balcony', 'kitchen', undefined, 'garden'];
const FIRST_DAY = Date.UTC(2026, 2, 1, 6);
const HOUR_MS = 3_600_000;

/** Creates plants over two days, more of them around noon. */
async function plant(config: ReturnType<typeof readConfig>): Promise<void> {
  const logger = pino({ level: 'silent' });
  let time = FIRST_DAY;
  const now = (): Date => new Date(time);
  const store = await openStore(config, { logger, now, onFatal: () => {}, appends: true });
  for (let i = 0; i < 300; i++) {
    const hour = ((time / HOUR_MS) % 24) + 0.5;
    time += (1 + (hour - 13) ** 2 / 6) * 240_000 * (0.4 + ((i * 7919) % 100) / 80);
    const tag = TAGS[(i * 7) % TAGS.length];
    const command = {
      user: USERS[(Math.imul(i, 2_654_435_761) >>> 16) % USERS.length] as string,
      id: BigInt(i + 1),
      name: PLANTS[(i * 5) % PLANTS.length] as string,
      ...(tag !== undefined && { tag }),
    };
    await createPlant(store, command, { now, newEventId, correlationId: `request-${i}` });
  }
  await store.close();
}

const dir = await mkdtemp(join(tmpdir(), 'plant-store-'));
const config = readConfig({ PORT: '0', DATA_DIR: dir, MERKLE_TREE: 'on', LOG_ORIGIN: 'plants.example/log' });
await plant(config);
const service = await startService(config, {
  logger: pino({ level: 'silent' }),
  trackProgress: () => () => {},
  closeIdleAfterMs: 0,
  onFatal: (error) => {
    throw error;
  },
});
const { privateKey } = loadOrCreateKey(config.keyFile);
const token = await issueToken(privateKey, { subject: 'carol', scope: 'audit', lifetime: '1h' });
const key = formatVerifierKey(loadExistingLogKey(config).verifierKey);
const browser = await startChromium();

async function shoot(page: Page, name: string): Promise<void> {
  await page.evaluate('document.activeElement?.blur(); scrollTo(0, 0)');
  await page.waitForFunction('document.getAnimations().length === 0');
  const path = join(PICTURES, `${name}.png`) as `${string}.png`;
  await page.screenshot({ path });
  console.info(`docs/screenshots/${name}.png: ${Math.ceil(statSync(path).size / 1024)} KiB`);
}

for (const { name, width, height, scheme } of SIZES) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.goto(`${service.url}/audit`);
  await page.locator('#token').fill(token);
  await page.locator('#sign-in button.primary').click();
  await page.waitForSelector('.live[data-state="Live"]');
  await page.waitForSelector('tbody tr:nth-child(200)');
  await page.locator('tbody tr:nth-child(3) .name').click();
  await shoot(page, `audit-timeline-${name}`);

  await page.locator('nav a[href="#point-in-time"]').click();
  await page.locator('#point-in-time [name="user"]').fill('alice');
  await page.locator('#point-in-time button.primary').click();
  await page.waitForSelector('.entities .name');
  for (let i = 0; i < 20; i++) await page.locator('[aria-label="Previous event"]').click();
  await shoot(page, `audit-point-in-time-${name}`);

  await page.locator('nav a[href="#check"]').click();
  await page.locator('.key-field').fill(key);
  await page.locator('#check button.primary').click();
  await page.locator('.read').click();
  await page.waitForSelector('#whole .good');
  await shoot(page, `audit-check-${name}`);
  await page.goto(`${service.url}/docs`);
  await page.waitForSelector('.try:not([hidden])');
  await shoot(page, `docs-${name}`);
  await page.close();
}
await browser.close();
await service.close();
await rm(dir, { recursive: true });
