// Writes live values as fleet/dashboard/templatetags/units.py writes those of the page. Absent is a dash, never a zero.
export const ABSENT = "–";
const SPACE = "\u00a0";

// Rounds as Python does: exact, ties to even. Only eighths can be exact ties in binary.
const ungrouped = (value, places) => {
  const scaled = value * 10 ** places;
  const tie = Number.isInteger(value * 8) && Math.abs(scaled % 1) === 0.5;
  return (tie ? (2 * Math.round(scaled / 2)) / 10 ** places : value).toFixed(places);
};
const grouped = (value, places) => ungrouped(value, places).replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
const digits = (value) => grouped(value, Math.abs(value) >= 99.95 || value === 0 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2);
const scaled = (value, base, names) => {
  let step = 0;
  while (Math.abs(value) >= base * 0.9995 && step < names.length - 1) { value /= base; step += 1; }
  return (step ? digits(value) : grouped(value, 0)) + SPACE + names[step];
};
const percent = (value) =>
  value > 0 && value < 0.05 ? `< 0.1${SPACE}%` : ungrouped(value, Math.abs(value) > 0 && Math.abs(value) < 9.95 ? 1 : 0) + SPACE + "%";
const count = (value) => grouped(value, Number.isInteger(value) ? 0 : Math.abs(value) >= 1 ? 1 : 2);
const writers = {
  percent,
  ratio: (value) => percent(value * 100),
  bytes: (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
  bytes_per_second: (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]),
  watts: (value) => (Math.abs(value) < 9999.5 ? `${grouped(value, 0)}${SPACE}W` : `${digits(value / 1000)}${SPACE}kW`),
  megahertz: (value) => `${grouped(value, 0)}${SPACE}MHz`,
  celsius: (value) => `${ungrouped(value, 0)}${SPACE}°C`,
};

export function reading(value, unit) {
  if (typeof value !== "number" || !Number.isFinite(value)) return ABSENT;
  return (writers[unit] || count)(value);
}
