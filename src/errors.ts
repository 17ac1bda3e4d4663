import { BadPosition, LogReplaced, StoreUnavailable, StreamDeleted } from '@event-sourced/event-log';
import { BadFilter, NotAcceptable, UnknownUser } from '@event-sourced/event-log/replay';
import { ViewBehind } from '@event-sourced/event-log/views';
import { entry, HTTP_ERRORS, RETRY, tokenErrors } from '@event-sourced/http';
import { LogContradictsTree } from '@event-sourced/transparency-log/entries';
import { NoSuchTile, NotYetCosigned } from '@event-sourced/transparency-log/routes';
import { CheckpointFileUnusable, LogContradictsCheckpoint } from '@event-sourced/transparency-log/signer';
import { PlantIdTaken, UnknownPlant } from './plants/createPlant.ts';

export const API_ERRORS = {
  ...HTTP_ERRORS,
  ...tokenErrors('plants'),
  invalidQuery: { ...HTTP_ERRORS.invalidQuery, of: [BadFilter, UnknownUser] },
  notAcceptable: { ...HTTP_ERRORS.notAcceptable, of: [NotAcceptable] },
  plantIdTaken: entry(40003, 'the user has another plant with this ID', {
    of: [PlantIdTaken],
    message: 'You have another plant with this ID. Choose another ID.',
  }),
  badPosition: entry(40005, 'a position is invalid, or of another log', {
    of: [BadPosition],
    example: 'Log-Position is a position of another log.',
  }),
  noSuchTile: entry(40401, 'the path is not that of a tile, or the tree does not have the tile', {
    of: [NoSuchTile],
    example: 'Not the path of a tile (https://c2sp.org/tlog-tiles).',
  }),
  unknownPlant: entry(40402, 'the user has no plant with this ID', {
    of: [UnknownPlant],
    message: 'There is no plant with this ID.',
  }),
  eventLost: entry(50002, 'the log no longer has the event that created this plant', {
    of: [LogContradictsTree, StreamDeleted],
    message:
      'The log no longer has the event that created this plant. The service has logged it for its operators.',
  }),
  storeUnavailable: entry(50301, 'the event store is unavailable; retry', {
    of: [StoreUnavailable, LogReplaced],
    headers: RETRY,
    message: 'The event store is unavailable. The request may have been stored, and can be repeated safely.',
  }),
  viewBehind: entry(50302, 'the list or the Merkle tree is not up to date yet; retry', {
    of: [ViewBehind],
    headers: RETRY,
    example: 'The plant list is being rebuilt; retry.',
  }),
  logContradictsCheckpoint: entry(50304, 'the log contradicts a checkpoint that it has signed', {
    of: [LogContradictsCheckpoint],
    headers: RETRY,
    message:
      'The log contradicts a checkpoint that it has signed, so nothing is signed. The service has logged it for its operators.',
  }),
  checkpointFileUnusable: entry(50304, 'the checkpoint cannot be saved; retry', {
    of: [CheckpointFileUnusable],
    headers: RETRY,
    message: 'The checkpoint cannot be saved, so it is not signed; retry.',
  }),
  notYetCosigned: entry(50305, 'too few witnesses have signed a checkpoint yet; retry', {
    of: [NotYetCosigned],
    headers: RETRY,
    message: 'Too few witnesses have signed a checkpoint yet; retry.',
  }),
};

/** Those that every route may have; the first of a status is its example. */
export const COMMON_ERRORS = [
  'malformedHttp',
  'malformedUrl',
  'invalidToken',
  'noToken',
  'requestTimeout',
  'expectationFailed',
  'rateLimitExceeded',
  'headersTooLarge',
  'internal',
  'storeUnavailable',
  'viewBehind',
  'identityProviderUnavailable',
] as const;
