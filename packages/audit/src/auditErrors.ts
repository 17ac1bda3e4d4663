import { BadPosition, StreamDeleted } from '@event-sourced/event-log';
import { BadFilter } from '@event-sourced/event-log/replay';
import { ViewBehind } from '@event-sourced/event-log/views';
import { defineError, HTTP_ERRORS, RETRY } from '@event-sourced/http';
import { LogContradictsTree } from '@event-sourced/transparency-log/entries';
import {
  CheckpointFileUnusable,
  LogContradictsCheckpoint,
  NotYetCosigned,
} from '@event-sourced/transparency-log/signer';

/** The errors of the routes, for the error entries of the app. `noun` is the name of an entity. */
export function auditErrors(noun: string) {
  return {
    invalidQuery: {
      ...HTTP_ERRORS.invalidQuery,
      causes: [BadFilter],
      details: (error: Error) => {
        const { field, problem } = error as BadFilter;
        return [{ field, message: problem }];
      },
    },
    badPosition: defineError(40005, 'a position is invalid, or belongs to another log', {
      causes: [BadPosition],
      example: 'Log-Position is a position of another log.',
    }),
    noSuchTile: defineError(40401, 'the path is not the path of a tile, or the tree does not have the tile', {
      example: 'Not the path of a tile (https://c2sp.org/tlog-tiles).',
    }),
    unknownEntity: defineError(40402, `the user has no ${noun} with this ID`, {
      message: `There is no ${noun} with this ID.`,
    }),
    unknownRecord: defineError(40403, 'the log has no record of erased events at this index', {
      message: 'There is no record of erased events at this index.',
    }),
    eventLost: defineError(50002, 'the log no longer has this event', {
      causes: [LogContradictsTree, StreamDeleted],
      message: 'The log no longer has this event. The service has logged it for its operators.',
    }),
    viewBehind: defineError(50302, `the list of ${noun}s or the Merkle tree is not up to date yet; retry`, {
      causes: [ViewBehind],
      headers: RETRY,
      example: 'The Merkle tree is being rebuilt; retry.',
    }),
    logContradictsCheckpoint: defineError(50304, 'the log contradicts a checkpoint that it has signed', {
      causes: [LogContradictsCheckpoint],
      headers: RETRY,
      message:
        'The log contradicts a checkpoint that it has signed, so nothing is signed. The service has logged it for its operators.',
    }),
    checkpointFileUnusable: defineError(50304, 'the checkpoint cannot be saved; retry', {
      causes: [CheckpointFileUnusable],
      headers: RETRY,
      message: 'The checkpoint cannot be saved, so it is not signed; retry.',
    }),
    notYetCosigned: defineError(50305, 'too few witnesses have cosigned a checkpoint yet; retry', {
      causes: [NotYetCosigned],
      headers: RETRY,
      message: 'Too few witnesses have cosigned a checkpoint yet; retry.',
    }),
  };
}
