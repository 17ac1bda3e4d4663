import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { lockDataDir, logFile } from '@event-sourced/event-log/disk';
import type { Follower } from '@event-sourced/event-log/views';
import {
  assertExtends,
  CheckpointFiles,
  loadExistingLogKey,
  signedFiles,
} from '@event-sourced/transparency-log/signer';
import type { MerkleTreeView } from '@event-sourced/transparency-log/view';
import type { Config } from '../config.ts';
import { Erasures } from '../erasures.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import { openStore } from '../stores.ts';
import { followViews } from '../views.ts';
import { type Context, loggerTo, write } from './context.ts';

type Options = { yes?: true };

/** Erases all plants of a user while the server is stopped. @throws Error for the operator */
export async function eraseCommand(user: string, { yes }: Options, context: Context): Promise<void> {
  const { config, output, print, onFatal, signal } = context;
  const { dataDir } = config;
  if (!isUser(user)) throw new Error(`the user must be ${USER_RULE}.`);
  if (config.eventStoreDb)
    throw new Error(
      'the log is in EventStoreDB, from which the service cannot erase; see docs/eventstoredb.md.',
    );
  if (!existsSync(logFile(dataDir))) throw new Error(`there is no log ${logFile(dataDir)}`);
  await using resources = new AsyncDisposableStack();
  resources.use(lockDataDir(dataDir));
  if (!yes && !(await confirm(user, context))) throw new Error('nothing was erased.');
  const logger = loggerTo(print);
  const now = () => new Date();
  const store = await openStore(config, { logger, now, onFatal });
  resources.defer(() => store.close());
  // The tree is built if it is switched off.
  const { tree, all } = followViews(store, { ...config, merkleTree: true }, { logger, resources });
  await tree?.reached(await store.lastPosition());
  const erasures = new Erasures({
    store,
    followers: all,
    tree: tree && { tree, assertTreeExtends: () => assertExtendsSigned(tree, config) },
    dataDir,
    now,
    logger,
  });
  resources.defer(() => erasures.close());
  signal.addEventListener('abort', () => erasures.close());
  const { events, records, scrubbed } = await erasures.erase(user);
  await scrubbed.catch(({ message }: Error) => {
    throw new Error(`erased ${events} events, but files may have bytes of erased events: ${message}`);
  });
  if (events === 0)
    print(
      `nothing was erased: the user ${JSON.stringify(user)} has no events. The name may be misspelled, or the events were erased before.`,
    );
  await write(output, `erased ${events} events; records: ${records.join(', ') || 'none'}\n`);
}

/** The log may have signed nothing. @throws LogContradictsCheckpoint; Error if a file cannot be used, or is of another key */
async function assertExtendsSigned({ readable }: Follower<MerkleTreeView>, config: Config): Promise<void> {
  const { logKeyFile, dataDir } = config;
  const files = existsSync(logKeyFile)
    ? new CheckpointFiles(loadExistingLogKey(config).verifierKey, dataDir)
    : undefined;
  const [other] = files ? files.earlierHistories() : signedFiles(dataDir);
  if (other)
    throw new Error(
      `the log has signed ${other} with another LOG_KEY_FILE or LOG_ORIGIN: use that one, or start the service with the new one; nothing was erased.`,
    );
  const signed = await files?.readSigned();
  await assertExtends(signed, readable.head, readable.readTile);
}

/** Asks on a terminal. @throws Error without one */
async function confirm(user: string, { onTerminal, signal }: Context): Promise<boolean> {
  if (!onTerminal) throw new Error('without a terminal, --yes is required.');
  using lines = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await lines.question(`Erase all plants of ${JSON.stringify(user)} for ever? [y/N] `, {
    signal,
  });
  return /^y(es)?$/i.test(answer.trim());
}
