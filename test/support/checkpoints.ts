import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { onTestFinished } from 'vitest';
import type { Transparency } from '../../packages/audit/src/options.ts';
import { Checkpoints } from '../../packages/transparency-log/src/signer/checkpoints.ts';
import { loadLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';

type Options = Partial<ConstructorParameters<typeof Checkpoints>[0]>;

/** Publishes the checkpoints of a fake tree, of the log named log.example, with a new key. */
export function publish(tree: object, options: Options = {}): Transparency {
  const logKey = loadLogKey({
    logKeyFile: join(tempDir(), 'log-key.json'),
    logOrigin: 'log.example',
    keyFile: join(tempDir(), 'key.json'),
  });
  const logger = { info() {}, warn() {}, error() {} };
  const follower = tree as Transparency['tree'];
  const checkpoints = new Checkpoints({ tree: follower, logKey, dataDir: tempDir(), logger, ...options });
  onTestFinished(() => checkpoints.close());
  return { tree: follower, checkpoints, verifierKey: logKey.verifierKey };
}
