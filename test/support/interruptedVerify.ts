import { plantOf, writeTo } from './logs.ts';
import { MAIN, NODE } from './process.ts';
import { startFakeServer } from './stores.ts';
import { tempDir } from './tempDir.ts';

export const VERIFY = [NODE, MAIN, 'verify'];

/** A server that sends only the first page of its events, so that a command cannot complete. */
export async function startHolding() {
  const fake = await startFakeServer();
  writeTo(fake, ...Array.from({ length: 1_000 }, (_, i) => plantOf('alice', i + 1, `plant ${i}`)));
  fake.holdAfter(100);
  return { fake, env: { DATA_DIR: tempDir(), EVENTSTOREDB_URL: fake.url } };
}
