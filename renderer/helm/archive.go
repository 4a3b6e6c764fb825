package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// maxNesting is the maximal nesting of subcharts.
const maxNesting = 10

// unpacking tracks the remaining limits while one chart is loaded.
type unpacking struct {
	version Version
	limits  Limits
	entries int
	bytes   int64
}

// open checks a packed chart and unpacks it.
func (u *unpacking) open(packed []byte) ([]File, error) {
	if err := u.check(packed); err != nil {
		return nil, err
	}
	unpack := unpackHelm3
	if u.version == Helm4 {
		unpack = unpackHelm4
	}
	files, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return files, nil
}

// load checks what Helm would unpack and parse, then builds the chart from its files.
func (u *unpacking) load(files []File) (*Chart, error) {
	if err := u.inspect(files, 0); err != nil {
		return nil, err
	}
	load := loadHelm3
	if u.version == Helm4 {
		load = loadHelm4
	}
	c, err := load(files)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return &Chart{chart: c}, nil
}

// inspect checks packed subcharts and the size of YAML files. Helm opens every `.tgz` in a `charts` directory,
// including those inside other packed charts.
func (u *unpacking) inspect(files []File, depth int) error {
	for _, f := range files {
		dir, base := path.Split(f.Path)
		if depth+strings.Count("/"+dir, "/charts/") > maxNesting {
			return fmt.Errorf("%s: subcharts are nested more than %d deep", f.Path, maxNesting)
		}
		if ofSubcharts(dir) && path.Ext(base) == ".tgz" && !strings.HasPrefix(base, "_") &&
			!strings.HasPrefix(base, ".") {
			inner, err := u.open(f.Data)
			if err == nil {
				err = u.inspect(inner, depth+1)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
		}
		if parsed(base) {
			if err := manifest.Check(f.Data, manifest.DefaultBudget()); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
		}
	}
	return nil
}

// ofSubcharts reports whether a directory is the `charts` of a chart or of an unpacked subchart.
func ofSubcharts(dir string) bool {
	for {
		rest, ok := strings.CutPrefix(dir, "charts/")
		if !ok || rest == "" {
			return ok
		}
		if _, dir, ok = strings.Cut(rest, "/"); !ok {
			return false
		}
	}
}

// parsed reports whether Helm parses a file of that name when it loads a chart.
func parsed(base string) bool {
	switch base {
	case chartutil.ChartfileName, chartutil.ValuesfileName, "Chart.lock", "requirements.yaml", "requirements.lock":
		return true
	}
	return false
}

// check reads a packed chart without keeping it and subtracts its entries and bytes from the limits.
func (u *unpacking) check(packed []byte) error {
	if err := manifest.CheckPointer(packed); err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("not a packed chart: %w", err)
	}
	bounded := &io.LimitedReader{R: unzipped, N: u.bytes + 1}
	archive := tar.NewReader(bounded)
	for {
		header, err := archive.Next()
		switch {
		case bounded.N <= 0:
			return fmt.Errorf("the unpacked chart is larger than %d MiB", u.limits.Bytes>>20)
		case errors.Is(err, io.EOF):
			u.bytes = bounded.N - 1
			return nil
		case err != nil:
			return fmt.Errorf("not a packed chart: %w", err)
		}
		if u.entries--; u.entries < 0 {
			return fmt.Errorf("the packed chart has more than %d entries", u.limits.Entries)
		}
		if err := checkEntry(header); err != nil {
			return err
		}
	}
}

func checkEntry(header *tar.Header) error {
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeXGlobalHeader:
	default:
		return fmt.Errorf("the packed chart holds %q, which is a link or a device: a chart may only have files",
			header.Name)
	}
	name := strings.ReplaceAll(header.Name, `\`, "/")
	if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") || strings.Contains(name, ":") {
		return fmt.Errorf("the packed chart holds %q, a path that leaves it", header.Name)
	}
	return nil
}
