import { existsSync } from 'node:fs';
import {
  openCheckpoint,
  parseTreeHead,
  printable,
  readUnverifiedCheckpoint,
  type TreeHead,
} from '@event-sourced/transparency-log';
import { readCheckpointFile } from '@event-sourced/transparency-log/files';
import { loadExistingLogKey } from '@event-sourced/transparency-log/signer';
import type { Config } from '../config.ts';

/**
 * Parses an option: SIZE:ROOT, or a file with a checkpoint. Verifies the signature of a checkpoint with this log's own
 * key, or prints why that is not possible. @throws Error, NotVerified
 */
export async function parseCheckpointOption(
  option: string,
  text: string,
  config: Config,
  print: (line: string) => void,
): Promise<TreeHead> {
  const head = parseTreeHead(text);
  if (head) return head;
  const note = await readCheckpointFile(text, option);
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
