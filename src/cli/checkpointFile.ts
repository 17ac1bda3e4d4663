import { existsSync } from 'node:fs';
import { printable } from '@event-sourced/node/cli';
import { openCheckpoint, readUnverifiedCheckpoint, type TreeHead } from '@event-sourced/tlog';
import { loadExistingLogKey } from '@event-sourced/transparency-log/signer';
import type { Config } from '../config.ts';

/**
 * Opens a checkpoint. Verifies its signature with this log's own key, or prints why that is not possible.
 * @throws NotVerified
 */
export async function openOwnCheckpoint(
  note: string,
  config: Config,
  print: (line: string) => void,
): Promise<TreeHead> {
  const checkpoint = readUnverifiedCheckpoint(note);
  const unchecked = (reason: string): TreeHead => {
    print(`the signature of the checkpoint was not checked: ${reason}`);
    return checkpoint;
  };
  if (checkpoint.origin !== config.logOrigin)
    return unchecked(`its origin is ${printable(checkpoint.origin)}, but LOG_ORIGIN is ${config.logOrigin}`);
  if (!existsSync(config.logKeyFile)) return unchecked(`${config.logKeyFile} does not exist`);
  return openCheckpoint(note, loadExistingLogKey(config).verifierKey);
}
