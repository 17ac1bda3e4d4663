import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import type { EventLog } from '@event-sourced/event-log';
import { lockDataDir, logFile } from '@event-sourced/event-log/disk';
import { Follower, type View } from '@event-sourced/event-log/views';
import { MerkleTreeView, merkleTreeFile } from '@event-sourced/transparency-log/view';
import { openViews } from '../../projections/views.ts';
import { Erasures } from '../erasures.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import { openStore } from '../stores.ts';
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
  const follow = (view: View, log: EventLog, options: object): Follower => {
    const follower = new Follower({ store: log, view, logger, ...options });
    resources.defer(() => follower.stop());
    return follower;
  };
  const { skipEvents: skip } = config;
  const followers = Object.values(openViews(dataDir, resources)).map((view) => follow(view, store, { skip }));
  const treeFile = merkleTreeFile(dataDir);
  if (existsSync(treeFile)) {
    const tree = resources.adopt(MerkleTreeView.open(treeFile), (view) => view.close());
    followers.push(follow(tree, store.forHashing, { keepMismatchAs: `${treeFile}.mismatch` }));
  }
  const { events, scrubbed } = await new Erasures({ store, followers, dataDir, now, signal }).erase(user);
  await scrubbed.catch(({ message }: Error) => {
    throw new Error(`erased ${events} events, but files may have bytes of erased events: ${message}`);
  });
  await write(output, `erased ${events} events\n`);
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
