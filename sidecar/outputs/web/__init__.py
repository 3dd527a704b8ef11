"""The status page at `/`: one publication for people, pushed as it changes. No Grafana, no build step."""
