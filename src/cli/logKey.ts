import { createDataDir } from '@event-sourced/event-log/disk';
import { formatVerifierKey } from '@event-sourced/tlog';
import { CheckpointFiles, loadLogKey } from '@event-sourced/transparency-log/signer';
import { type Context, write } from './context.ts';

/** Prints the verifier key of the log. Creates the private key if it does not exist. */
export async function logKeyCommand({ config, output, print }: Context): Promise<void> {
  createDataDir(config.dataDir);
  const { verifierKey, isNew } = loadLogKey(config);
  await write(output, `${formatVerifierKey(verifierKey)}\n`);
  const [other] = new CheckpointFiles(verifierKey, config.dataDir).earlierHistories();
  if (other)
    print(
      `the log has signed ${other} with another LOG_KEY_FILE, LOG_ORIGIN or EVENT_SOURCE: this is not its key`,
    );
  if (isNew) print(`created the key ${config.logKeyFile}`);
}
