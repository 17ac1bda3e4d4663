export { type Erased, ErasureRefused, eraseStreams } from './eraseStreams.ts';
