import type { KeyObject } from 'node:crypto';
import { loadOrCreateKey } from '../disk/keyFile.ts';
import { type VerifierKey, verifierKeyOf } from './signedNote.ts';

/** The private key that signs a log's checkpoints, under the name of its origin. */
export type LogKey = { origin: string; key: KeyObject; verifierKey: VerifierKey };

/** Reads the log's own key, or creates it. @throws UnusableKey */
export function loadLogKey({ logKeyFile, logOrigin }: { logKeyFile: string; logOrigin: string }): LogKey {
  const { privateKey, publicKey } = loadOrCreateKey(logKeyFile);
  return { origin: logOrigin, key: privateKey, verifierKey: verifierKeyOf(logOrigin, publicKey) };
}
