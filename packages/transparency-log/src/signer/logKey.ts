import type { KeyObject } from 'node:crypto';
import {
  type KeyFormat,
  type KeyPair,
  loadKey,
  loadOrCreateKey,
  UnusableKey,
} from '@event-sourced/node/files';
import type { VerifierKey } from '@event-sourced/tlog';
import { toVerifierKey } from '@event-sourced/tlog/sign';

/** The private key that signs a log's checkpoints, under the name of its origin. */
export type LogKey = { origin: string; key: KeyObject; verifierKey: VerifierKey };

type Location = { logKeyFile: string; logOrigin: string; keyFile: string };

/**
 * `{ "format": 2, "key": JWK }`: version 1, whose tree had another root for the same events, does not read it. The format
 * changes with the tree, since checkpoints have no version.
 */
const LOG_KEY: KeyFormat = {
  wrap: (key) => ({ format: 2, key }),
  unwrap(json) {
    const { format, key, kty } = Object(json) as { format?: unknown; key?: unknown; kty?: unknown };
    if (format === 2) return key;
    throw new Error(
      kty === undefined
        ? 'it is not the key of a log'
        : 'it has signed the tree of version 1, which has other roots; set a new LOG_KEY_FILE and a new LOG_ORIGIN for all instances, and give auditors the new verifier key',
    );
  },
};

/** Reads the log's own key, or creates it, then `isNew`. @throws UnusableKey */
export function loadLogKey(location: Location): LogKey & { isNew: boolean } {
  const { isNew, ...key } = loadOrCreateKey(location.logKeyFile, LOG_KEY);
  return { ...named(location, key), isNew };
}

/** Reads the log's own key, which must exist. @throws UnusableKey */
export function loadExistingLogKey(location: Location): LogKey {
  return named(location, loadKey(location.logKeyFile, LOG_KEY));
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
