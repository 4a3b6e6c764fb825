// Licenses prints the license of every module in the released binaries, as a Markdown table. It fails if it does not
// recognise the license of a module, or if the license is not permitted. Run it with `make licenses` in the folder of
// the main module.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// platforms are those of the releases; each platform can need different modules.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// permitted are licenses that are compatible with Apache-2.0 and require only notices; MPL-2.0 is permitted for
// unchanged files.
var permitted = []string{
	"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0", "0BSD", "Unlicense",
	"CC0-1.0", "MIT-0", "Zlib", "BSD-2-Clause-FreeBSD", "BSD-2-Clause-Views",
}

// chosen has the license of modules that offer several, or whose other license applies to documentation. A person has
// checked them.
var chosen = map[string]string{
	"kernel.org/pub/linux/libs/security/libcap/cap": "BSD-3-Clause", // or GPL-2.0, at the user's choice
	"kernel.org/pub/linux/libs/security/libcap/psx": "BSD-3-Clause", // or GPL-2.0, at the user's choice
	"github.com/opencontainers/go-digest":           "Apache-2.0",   // its documentation is under CC-BY-SA-4.0
	// older contributions are under MIT, the documentation, which Sluice does not contain, under CC-BY-4.0
	"github.com/modelcontextprotocol/go-sdk": "Apache-2.0, MIT",
}

type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	all := map[string]module{}
	for _, platform := range platforms {
		if err := list(platform, all); err != nil {
			return err
		}
	}
	var rows []string
	var problems []error
	for _, m := range all {
		names, err := []string{chosen[m.Path]}, error(nil)
		if names[0] == "" {
			names, err = licenses(m.Dir)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", m.Path, m.Version, err))
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", m.Path, m.Version, strings.Join(names, ", ")))
	}
	slices.Sort(rows)
	_, err := fmt.Fprintf(w,
		"# Licenses of other people's modules\n\nSluice is under the [Apache License 2.0](LICENSE). Released binaries contain these modules. `make licenses` writes this file.\n\n| module | version | license |\n|---|---|---|\n%s", strings.Join(rows, ""))
	return errors.Join(append(problems, err)...)
}

// list adds the modules of the program on a platform.
func list(platform string, into map[string]module) error {
	system, arch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/sluice") //nolint:noctx // a tool
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct{ Module *module }
		if err := dec.Decode(&p); err != nil {
			return err
		}
		m := p.Module
		if m == nil || m.Main {
			continue
		}
		if m.Replace != nil {
			m.Dir = m.Replace.Dir
		}
		into[m.Path] = *m
	}
	return nil
}

// licenses returns the licenses of the files in the root folder of a module.
func licenses(dir string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"LICEN[CS]E*", "[Ll]icen[cs]e*", "COPYING*", "UNLICENSE*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file) //nolint:gosec // in the module cache
			if err != nil {
				continue // a folder
			}
			for _, match := range licensecheck.Scan(text).Match {
				if !slices.Contains(out, match.ID) {
					out = append(out, match.ID)
				}
			}
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return []string{"?"}, errors.New("no known license")
	}
	for _, name := range out {
		if !slices.Contains(permitted, name) {
			return out, fmt.Errorf("license %s is not permitted", name)
		}
	}
	return out, nil
}
