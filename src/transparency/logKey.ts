import type { KeyObject } from 'node:crypto';
import { type KeyPair, loadKey, loadOrCreateKey } from '../disk/keyFile.ts';
import { type VerifierKey, verifierKeyOf } from './signedNote.ts';

/** The private key that signs a log's checkpoints, under the name of its origin. */
export type LogKey = { origin: string; key: KeyObject; verifierKey: VerifierKey };

type Location = { logKeyFile: string; logOrigin: string };

/** Reads the log's own key, or creates it. @throws UnusableKey */
export function loadLogKey({ logKeyFile, logOrigin }: Location): LogKey {
  return named(logOrigin, loadOrCreateKey(logKeyFile));
}

/** Reads the log's own key, which must exist. @throws UnusableKey */
export function loadExistingLogKey({ logKeyFile, logOrigin }: Location): LogKey {
  return named(logOrigin, loadKey(logKeyFile));
}

function named(origin: string, { privateKey, publicKey }: KeyPair): LogKey {
  return { origin, key: privateKey, verifierKey: verifierKeyOf(origin, publicKey) };
}
