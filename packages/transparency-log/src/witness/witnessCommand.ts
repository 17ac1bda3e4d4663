import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { lockDataDir } from '@event-sourced/event-log/disk';
import { freeAddress } from '@event-sourced/event-log/process';
import { loadOrCreateKey } from '../files/keyFile.ts';
import { readStateFile } from '../files/stateFile.ts';
import { printable } from '../notes/printable.ts';
import {
  formatVerifierKey,
  isKeyName,
  KEY_NAME_RULE,
  MAX_NOTE_BYTES,
  parseLogKey,
  type VerifierKey,
} from '../notes/signedNote.ts';
import { Witness } from './witness.ts';
import { startWitnessServer } from './witnessServer.ts';

/** The options of the command, as text. */
export type WitnessCommandOptions = Record<'key' | 'name' | 'logs' | 'state' | 'host' | 'port', string>;

type Context = {
  write: (text: string) => Promise<void>;
  print: (line: string) => void;
  signal: AbortSignal;
};

/** Runs a witness until the signal aborts. @throws Error for the operator */
export async function runWitness(options: WitnessCommandOptions, context: Context): Promise<void> {
  const { name, state: stateDir, host } = options;
  const { write, print, signal } = context;
  if (!isKeyName(name)) throw new Error(`--name must be a name ${KEY_NAME_RULE}.`);
  const port = parsePort(options.port);
  const logs = await readLogs(options.logs);
  const cannotListen = (error: Error): never => {
    throw new Error(`cannot use --port and --host: ${error.message}`, { cause: error });
  };
  await freeAddress({ host, port }).catch(cannotListen);
  // Without parents: a missing parent may be a mount that failed.
  await mkdir(stateDir, { mode: 0o700 }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  using _lock = lockDataDir(stateDir); // also makes the directory durable: it must not be lost
  const { privateKey: key } = loadOrCreateKey(options.key);
  const witness = new Witness({ name, key, logs, stateDir, now: () => new Date() });
  for (const logId of witness.logIds)
    await witness.checkpoint(logId).catch(({ message }) => print(printable(message)));
  const server = await startWitnessServer(witness, { host, port, print }).catch(cannotListen);
  try {
    await write(`verifier key ${formatVerifierKey(witness.verifierKey)}\nlistening at ${server.url}\n`);
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await server.close();
  }
}

/** Reads verifier keys, one per line, each with its log's origin if it differs. @throws Error that names the line */
async function readLogs(file: string): Promise<VerifierKey[]> {
  const text = await readStateFile(file, MAX_NOTE_BYTES, 'a list of verifier keys').catch(({ message }) => {
    throw new Error(`cannot read the file of --logs: ${message}`);
  });
  return text.split('\n').flatMap((line, i) => {
    const [, key, origin] = /^\s*(\S+)\s*(.*\S)?/.exec(line.replace(/(^|\s)#.*/, '')) ?? [];
    if (key === undefined) return [];
    try {
      return [parseLogKey({ key, ...(origin !== undefined && { origin }) })];
    } catch (error) {
      throw new Error(`${file}, line ${i + 1}: ${(error as Error).message}`);
    }
  });
}

/** @throws Error that names the option */
function parsePort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new Error('--port must be a port from 0 to 65535; 0 selects a free one.');
  return Number(text);
}
