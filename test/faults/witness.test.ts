import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Random } from '@event-sourced/testing/random';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { formatVerifierKey } from '../../packages/transparency-log/src/notes/signedNote.ts';
import * as log from '../../packages/transparency-log/test/witness/testLog.ts';
import { NODE, start } from '../support/process.ts';

const BIN = fileURLToPath(new URL('../../packages/transparency-log/src/cli/bin.js', import.meta.url));

/** Kills the process before this step of its first replacement of a state file. */
const killBefore = (step: number): string => `
  import fs from 'node:fs/promises';
  import { syncBuiltinESMExports } from 'node:module';
  let steps = Number.NaN;
  const counted = (call) => function (...args) {
    if (String(args[0]).endsWith('.draft') && Number.isNaN(steps)) steps = 0;
    if (++steps === ${step}) process.kill(process.pid, 'SIGKILL');
    return Reflect.apply(call, this, args);
  };
  const handle = await fs.open('.');
  const prototype = Object.getPrototypeOf(handle);
  await handle.close();
  for (const name of ['writeFile', 'sync']) prototype[name] = counted(prototype[name]);
  for (const name of ['open', 'rename']) fs[name] = counted(fs[name]);
  syncBuiltinESMExports();`;

/** A witness that is killed and started again; `cosigned` has the logs of all cosignatures, by their sizes. */
function killedWitness() {
  const dir = tempDir();
  writeFileSync(join(dir, 'logs'), formatVerifierKey(log.LOG_KEY));
  const files = ['--key', `${dir}/key`, '--logs', `${dir}/logs`, '--state', `${dir}/state`];
  const submitted = new Set<string>();
  const cosigned = new Map<number, string>();
  const record = (letters: string): void => {
    expect(cosigned.get(letters.length) ?? letters).toBe(letters);
    cosigned.set(letters.length, letters);
  };
  return {
    cosigned,
    /** Starts the witness, and finds its latest checkpoint among the submitted ones. */
    async start(script = '') {
      const node = [NODE, `--import=data:text/javascript,${encodeURIComponent(script)}`, BIN];
      const command = [...node, 'witness', '--name', log.WITNESS.name, ...files, '--port', '0'];
      const { listening, ...witness } = start({ command });
      const url = await listening();
      const response = await fetch(`${url}/${log.LOG_ID}/checkpoint`);
      const [text = ''] = (await response.text()).split('\n\n');
      const found = [...submitted].find((letters) => log.request(letters).includes(`\n${text}\n\n`)) ?? '';
      expect(response.status).toBe(found ? 200 : 404);
      for (const letters of cosigned.values()) expect(found.startsWith(letters)).toBe(true);
      if (found) record(found);
      return { ...witness, url, latest: found };
    },
    /** The status; undefined without a response. */
    async submit(url: string, letters: string, from: number): Promise<number | undefined> {
      submitted.add(letters);
      const request = { method: 'POST', body: log.request(letters, { from }) };
      const response = await fetch(`${url}/add-checkpoint`, request).catch(() => undefined);
      if (response?.status === 200) record(letters);
      return response?.status;
    },
  };
}

test('a witness that is killed before any step of a write cosigns one history', async () => {
  const witness = killedWitness();
  const sizes: number[] = [];
  for (let step = 1; step <= 7; step++) {
    const { url, latest, ended, kill } = await witness.start(killBefore(step));
    sizes.push(latest.length);
    const forks = ['x', 'y', 'zz'].map((more) => witness.submit(url, latest + more, latest.length));
    await Promise.race([ended, Promise.all(forks)]);
    await kill();
    expect((await Promise.all(forks)).includes(200)).toBe(step === 7);
  }
  // The draft is opened, written, synced and renamed; then the directory is opened and synced.
  expect(sizes.map((size) => size > 0)).toEqual([false, false, false, false, false, true, true]);
});

test('a witness that is killed under load cosigns one history, and keeps all that it has cosigned', async () => {
  const witness = killedWitness();
  const random = new Random(2026);
  for (let lifetime = 1; lifetime <= 15; lifetime++) {
    const { url, latest, kill } = await witness.start();
    let { length: size } = latest;
    let left = 1 + random.below(40);
    const client = async (letter: string): Promise<void> => {
      for (let status: number | undefined = 0; status !== undefined && left > 0; left--) {
        const log = witness.cosigned.get(size) ?? '';
        status = await witness.submit(url, log + letter.repeat(1 + random.below(2)), size);
        size = Math.max(size, ...witness.cosigned.keys());
      }
      await kill();
    };
    await Promise.all(['x', 'y', 'z'].map(client));
  }
  expect((await witness.start()).latest.length).toBeGreaterThan(15);
});
