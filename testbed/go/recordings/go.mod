// Recordings of machines that others publish inside their modules. Nothing is built from these; `recordings` fetches
// them one by one, and go.sum makes it refuse anything but what was pinned.
module testbed/recordings

go 1.26.0

require (
	github.com/jaypipes/ghw v0.26.0
	github.com/prometheus/node_exporter v1.12.1
	github.com/prometheus/procfs v0.21.1
)
