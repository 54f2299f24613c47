import './style/tokens.css';
import './style/base.css';
import './style/code.css';
import { mount } from 'svelte';
import { chooseBackend } from './backend';
import { Gantry } from './state/gantry.svelte';
import { theme } from './state/theme.svelte';
import { language } from './strings/language.svelte';
import App from './views/App.svelte';

theme.start();
language.start();
const target = document.getElementById('app');
if (target) {
  const gantry = new Gantry(await chooseBackend());
  mount(App, { target, props: { gantry } });
  gantry.start();
}
