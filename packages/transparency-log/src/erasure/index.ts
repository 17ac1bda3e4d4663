export { ErasedFile, type Repeated } from './erasedFile.ts';
export { type Erased, ErasureRefused, eraseStreams } from './eraseStreams.ts';
