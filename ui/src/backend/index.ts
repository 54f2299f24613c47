import type { Backend } from './backend';
import { httpBackend } from './http';
import { tauriBackend } from './tauri';

export * from './backend';

/** The backend of where this page runs. */
export async function chooseBackend(): Promise<Backend> {
  if (import.meta.env.DEV && new URL(location.href).searchParams.has('mock')) {
    // Only in development: the condition is constant, so a build leaves the module out.
    const { mockBackend } = await import('./mock/mock');
    return mockBackend();
  }
  return '__TAURI_INTERNALS__' in window ? tauriBackend() : httpBackend();
}
