// Words for the closed sets of the code; a test holds each of these to its set.
export const SEVERITIES = { bad: "Now", warn: "Soon", note: "Note" };
export const PHASES = { to_port: "port", to_healthy: "healthy", to_ready: "ready", to_first_token: "first token" };
export const HEALTH = { up: "good", down: "bad", wedged: "bad", unknown: "bad", "not ready": "warn" };
export const REASONS = {
  idle: "nothing to do",
  load: "the load",
  backlog: "the queue",
  slo: "the load",
  no_service_time: "what runs now; how long a request takes isn't known yet",
  no_capacity: "there is work; how much of it fits isn't known yet",
};
export const LIMITS = {
  slots: "request slots",
  kv_cache: "KV cache",
  slo: "the latency objective",
  observed: "what it was seen to run",
  none: "nothing that is known yet",
};
export const RESOURCES = { slots: "request slots", kv_cache: "KV cache", queue: "queue", gpu_memory: "GPU memory" };
// What the fleet role takes a sidecar for.
export const STATES = { serving: "serving", blind: "not heard", starting: "no replica yet" };

// Why a replica needs what it needs; idle, and no known limit at all, need no second half.
export function because(reason, limit) {
  if (!reason) return "";
  return ["idle", "no_capacity"].includes(reason) ? REASONS[reason] : `${REASONS[reason]}, limited by ${LIMITS[limit]}`;
}
