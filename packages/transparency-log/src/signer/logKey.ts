import type { KeyObject } from 'node:crypto';
import { type KeyPair, loadKey, loadOrCreateKey, UnusableKey } from '../files/keyFile.ts';
import type { VerifierKey } from '../notes/signedNote.ts';
import { toVerifierKey } from '../sign/signCheckpoint.ts';

/** The private key that signs a log's checkpoints, under the name of its origin. */
export type LogKey = { origin: string; key: KeyObject; verifierKey: VerifierKey };

type Location = { logKeyFile: string; logOrigin: string; keyFile: string };

/** Reads the log's own key, or creates it, then `isNew`. @throws UnusableKey */
export function loadLogKey(location: Location): LogKey & { isNew: boolean } {
  const { isNew, ...key } = loadOrCreateKey(location.logKeyFile);
  return { ...named(location, key), isNew };
}

/** Reads the log's own key, which must exist. @throws UnusableKey */
export function loadExistingLogKey(location: Location): LogKey {
  return named(location, loadKey(location.logKeyFile));
}

function named(
  { logKeyFile, logOrigin: origin, keyFile }: Location,
  { privateKey, publicKey }: KeyPair,
): LogKey {
  // A key has one purpose: the key for tokens must not sign checkpoints.
  if (hasKey(keyFile, publicKey))
    throw new UnusableKey(`${logKeyFile} and ${keyFile} must have different keys`);
  return { origin, key: privateKey, verifierKey: toVerifierKey(origin, publicKey) };
}

/** Whether a file has this key; false if the file is missing or unusable. */
function hasKey(file: string, publicKey: KeyObject): boolean {
  try {
    return loadKey(file).publicKey.equals(publicKey);
  } catch {
    return false;
  }
}
