import { createDataDir } from '@event-sourced/event-log/disk';
import { formatVerifierKey } from '@event-sourced/tlog';
import { loadLogKey } from '@event-sourced/transparency-log/signer';
import { type Context, write } from './context.ts';

/** Prints the verifier key of the log. Creates the private key if it does not exist. */
export async function logKeyCommand({ config, output, print }: Context): Promise<void> {
  createDataDir(config.dataDir);
  const { verifierKey, isNew } = loadLogKey(config);
  await write(output, `${formatVerifierKey(verifierKey)}\n`);
  if (isNew) print(`created the key ${config.logKeyFile}`);
}
