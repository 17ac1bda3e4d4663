import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { CheckpointSigner } from '../../packages/transparency-log/src/signer/checkpointSigner.ts';
import { loadLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';

/** A signer for the log named log.example, with a new key. */
export function newSigner(): CheckpointSigner {
  const logKey = loadLogKey({
    logKeyFile: join(tempDir(), 'log-key.json'),
    logOrigin: 'log.example',
    keyFile: join(tempDir(), 'key.json'),
  });
  return new CheckpointSigner(logKey, tempDir());
}
