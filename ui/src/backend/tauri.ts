import { Channel, invoke } from '@tauri-apps/api/core';
import { listen } from '@tauri-apps/api/event';
import type { Event, Snapshot } from '../wire';
import { asBackendError, type Backend, UNREACHABLE, BackendError } from './backend';

/** What the window's event channel delivers. */
type Delivery =
  | { kind: 'snapshot'; snapshot: Snapshot }
  | { kind: 'event'; event: Event }
  | { kind: 'resync' };

/** Pause before a channel that was refused is asked for again, in milliseconds. */
const PAUSE = 1000;

/** The backend of the desktop window: four commands of the shell. */
export function tauriBackend(): Backend {
  return {
    kind: 'window',

    async call(name, input) {
      try {
        return await invoke('command', { name, input });
      } catch (thrown) {
        throw asBackendError(thrown);
      }
    },

    events(listener) {
      let current = 0;
      const connect = (): void => {
        // A channel that we left behind may still deliver: its number tells.
        const generation = ++current;
        const channel = new Channel<Delivery>();
        channel.onmessage = (delivery) => {
          if (generation !== current) return;
          if (delivery.kind === 'snapshot') listener.snapshot(delivery.snapshot);
          else if (delivery.kind === 'event') listener.event(delivery.event);
          else connect();
        };
        invoke('events', { channel }).catch((thrown: unknown) => {
          if (generation !== current) return;
          const error = asBackendError(thrown);
          listener.lost(new BackendError(UNREACHABLE, error.message, error.detail));
          setTimeout(() => generation === current && connect(), PAUSE);
        });
      };
      connect();
      return () => {
        current = -1;
      };
    },

    onCloseAsked(asked) {
      const stop = listen('close-asked', () => {
        // The shell hides the window when nobody says that the question is shown.
        void invoke('close_heard');
        asked();
      });
      return () => void stop.then((end) => end());
    },
    onOpenAsked(open) {
      const stop = listen<{ session: string | null }>('open-session', ({ payload }) => open(payload.session));
      return () => void stop.then((end) => end());
    },
    autostart: () => invoke<boolean>('autostart'),
    setAutostart: (on) => invoke<boolean>('set_autostart', { on }),
    openDataFolder: () => invoke('open_data_folder'),
    shown: () => void invoke('shown'),
    hide: () => invoke('hide'),
    saveFile: (name, text) => invoke<string | null>('save_file', { name, text }),
    pickFolder: () => invoke<string | null>('pick_folder'),
    openExternal: (url) => invoke('open_external', { url }),
  };
}
