/** A name and its value, as they are being written. */
export interface Row {
  key: string;
  value: string;
}
