import type { DatabaseSync } from 'node:sqlite';

/** Added to the version of a file that may have bytes of erased events, also after a restart. */
const UNSCRUBBED = 0x10000;

type Header = { applicationId: number; version: number; isUnscrubbed: boolean };

export function readHeader(db: DatabaseSync): Header {
  const { application_id } = db.prepare('PRAGMA application_id').get() as { application_id: number };
  const { user_version } = db.prepare('PRAGMA user_version').get() as { user_version: number };
  const isUnscrubbed = (user_version & UNSCRUBBED) !== 0;
  return {
    applicationId: application_id,
    version: user_version - (isUnscrubbed ? UNSCRUBBED : 0),
    isUnscrubbed,
  };
}

export function writeVersion(
  db: DatabaseSync,
  { version, isUnscrubbed }: Omit<Header, 'applicationId'>,
): void {
  db.exec(`PRAGMA main.user_version = ${version + (isUnscrubbed ? UNSCRUBBED : 0)}`);
}
