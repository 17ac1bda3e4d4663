import { auditErrors } from '@event-sourced/audit';
import { LogReplaced, StoreUnavailable } from '@event-sourced/event-log';
import { defineError, HTTP_ERRORS, RETRY, tokenErrors, tooManyInFlight } from '@event-sourced/http';
import { ErasureRefused } from '@event-sourced/transparency-log/erasure';
import { CannotErase, ErasureNeedsTree, NoSpaceToErase } from './erasures.ts';
import { PlantIdTaken } from './plants/createPlant.ts';

/** The maximum number of lists in flight per user. Each holds about a page in memory until its client has read it. */
export const MAX_LISTS_IN_FLIGHT = 100;

export const API_ERRORS = {
  ...HTTP_ERRORS,
  ...tokenErrors('plants'),
  ...auditErrors('plant'),
  plantIdTaken: defineError(40003, 'the user has another plant with this ID', {
    causes: [PlantIdTaken],
    message: 'You have another plant with this ID. Choose another ID.',
  }),
  cannotErase: defineError(50101, 'the event store cannot overwrite events', {
    causes: [CannotErase],
    message:
      'The log is in EventStoreDB, from which the service cannot erase; docs/eventstoredb.md has the way of its administrators.',
  }),
  erasureRefused: defineError(50003, 'an event to erase is not the one that the log has signed', {
    causes: [ErasureRefused],
    message:
      'An event of the user is not the one in the Merkle tree, or the tree contradicts the last signed checkpoint. Nothing was erased. The service has logged it for its operators.',
  }),
  erasureNeedsTree: defineError(50102, 'erasing over HTTP requires the Merkle tree', {
    causes: [ErasureNeedsTree],
    message: 'With MERKLE_TREE=off, only `bin/plant-store erase` erases, while the service is stopped.',
  }),
  noSpaceToErase: defineError(50701, 'there is too little free space to erase', {
    causes: [NoSpaceToErase],
    message:
      'There is too little free space: erasing rewrites the files of the log and of the views. Nothing was erased. Repeat the request when the operators have freed space.',
  }),
  tooManyLists: tooManyInFlight({ kind: 'lists', max: MAX_LISTS_IN_FLIGHT }),
  storeUnavailable: defineError(50301, 'the event store is unavailable; retry', {
    causes: [StoreUnavailable, LogReplaced],
    headers: RETRY,
    message: 'The event store is unavailable. The request may have been stored, and can be repeated safely.',
  }),
};

/** The errors that every route can return. */
export const COMMON_ERRORS = [
  API_ERRORS.invalidQuery,
  API_ERRORS.malformedHttp,
  API_ERRORS.malformedUrl,
  API_ERRORS.invalidToken,
  API_ERRORS.noToken,
  API_ERRORS.requestTimeout,
  API_ERRORS.expectationFailed,
  API_ERRORS.rateLimitExceeded,
  API_ERRORS.headersTooLarge,
  API_ERRORS.internal,
  API_ERRORS.storeUnavailable,
  API_ERRORS.identityProviderUnavailable,
];
