package helm

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/ignore"
)

// File is one file of a chart, with its slash path inside the chart's directory.
type File struct {
	Path string
	Data []byte
}

// Limits bound the size of a chart.
type Limits struct {
	Entries int   // files and directories
	Bytes   int64 // unpacked
}

// DefaultLimits returns Helm's limit of bytes, and a number of files that is far above that of any chart known to us.
func DefaultLimits() Limits {
	return Limits{Entries: 20_000, Bytes: loader.MaxDecompressedChartSize}
}

// Version is a major version of Helm. Charts of one name and the same values can render differently with each.
type Version int

// The versions: docs/rendering.md lists what differs.
const (
	Helm3 Version = 3
	Helm4 Version = 4
)

// Chart is a loaded chart. It is safe for concurrent use; Add must be called before the first Render.
type Chart struct {
	chart    loaded
	schemas  schemas
	programs programs
}

// loaded is a chart as one version of Helm loads it. Nobody changes it after the last add.
type loaded interface {
	about() about
	// defaults returns the text of values.yaml, or nil.
	defaults() []byte
	// add adds a chart of the same version to those of charts/.
	add(dependency loaded)
	// prepare returns a copy of the chart with the subcharts that the values select, and the values for the templates.
	prepare(o Options) (*prepared, error)
}

// about is what Chart.yaml says of a chart, and which charts are in its charts/.
type about struct {
	name, version, kind string
	dependencies        []Dependency
	subcharts           []string // names
}

// Dependency is a dependency of Chart.yaml that is not in `charts/`.
type Dependency struct {
	Name, Version, Repository string
}

// Load loads a chart from the files of its directory. It honours .helmignore.
func Load(v Version, files []File, limits Limits) (*Chart, error) {
	if len(files) > limits.Entries {
		return nil, fmt.Errorf("%d files are more than the %d that a chart may have", len(files), limits.Entries)
	}
	rules, err := ignoreRules(files)
	if err != nil {
		return nil, err
	}
	var total int64
	own := make([]File, 0, len(files))
	for _, f := range files {
		if ignored(rules, f) {
			continue
		}
		if total += int64(len(f.Data)); total > limits.Bytes {
			return nil, fmt.Errorf("the chart is larger than %d MiB", limits.Bytes>>20)
		}
		if v == Helm3 && len(f.Data) > int(loader.MaxDecompressedFileSize) {
			return nil, fmt.Errorf("%s is larger than Helm's limit of %d MiB for one file", f.Path,
				loader.MaxDecompressedFileSize>>20)
		}
		own = append(own, File{f.Path, bytes.TrimPrefix(f.Data, []byte("\xef\xbb\xbf"))})
	}
	u := unpacking{version: v, limits: limits, entries: limits.Entries - len(own), bytes: limits.Bytes - total}
	return u.load(own)
}

// LoadArchive loads a packed chart. It refuses links, devices and paths that leave the chart, including those in
// packed subcharts. The chart with its packed subcharts must stay within the limits.
func LoadArchive(v Version, packed []byte, limits Limits) (*Chart, error) {
	u := unpacking{version: v, limits: limits, entries: limits.Entries, bytes: limits.Bytes}
	files, err := u.open(packed)
	if err != nil {
		return nil, err
	}
	return u.load(files)
}

// Unpack returns the files of a packed chart, without parsing them. It refuses what LoadArchive refuses.
func Unpack(v Version, packed []byte, limits Limits) ([]File, error) {
	u := unpacking{version: v, limits: limits, entries: limits.Entries, bytes: limits.Bytes}
	return u.open(packed)
}

func ignoreRules(files []File) (*ignore.Rules, error) {
	rules := ignore.Empty()
	for _, f := range files {
		if f.Path == ignore.HelmIgnore {
			parsed, err := ignore.Parse(bytes.NewReader(f.Data))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
			rules = parsed
		}
	}
	rules.AddDefaults()
	return rules, nil
}

// ignored reports whether the rules exclude the file or a directory above it.
func ignored(rules *ignore.Rules, f File) bool {
	for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
		if rules.Ignore(dir, info{name: path.Base(dir), dir: true}) {
			return true
		}
	}
	return rules.Ignore(f.Path, info{name: path.Base(f.Path)})
}

// info is the part of fs.FileInfo that ignore rules use.
type info struct {
	name string
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return 0 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir
	}
	return 0
}

// Name returns the chart's name.
func (c *Chart) Name() string { return c.chart.about().name }

// Version returns the chart's version.
func (c *Chart) Version() string { return c.chart.about().version }

// Defaults returns the text of the chart's values.yaml, or nil.
func (c *Chart) Defaults() []byte { return c.chart.defaults() }

// Missing returns the dependencies of Chart.yaml that are not in `charts/` and were not added.
func (c *Chart) Missing() []Dependency {
	chart := c.chart.about()
	return slices.DeleteFunc(chart.dependencies, func(d Dependency) bool {
		return slices.Contains(chart.subcharts,
			d.Name)
	})
}

// Add adds a chart to those of `charts/`.
func (c *Chart) Add(dependency *Chart) { c.chart.add(dependency.chart) }
