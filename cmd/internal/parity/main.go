// Command parity renders the charts and repositories of the corpus with Sluice and with the tools that it replaces,
// compares the outputs object by object, and writes the results and the page docs/parity.md. Run it with `make parity`.
//
// The results hold names, figures and causes, and nothing of the files of others. A part whose tool is not on this
// machine keeps the results of its last run, with their date and commit.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Results are what testdata/parity/results.json holds.
type Results struct {
	Parts []Part `json:"parts"`
	Times []Time `json:"times"`
}

// Part is the comparison with one tool.
type Part struct {
	Name   string `json:"name"`   // key of the part, such as helm3
	Tool   string `json:"tool"`   // name and version of the tool
	Call   string `json:"call"`   // how the tool is called
	Date   string `json:"date"`   // of the run
	Commit string `json:"commit"` // of Sluice
	Rows   []Row  `json:"rows"`
}

// Row is one chart with one set of values, or one repository. Units are what is rendered by itself: a chart, a
// Kustomize root, an Application.
type Row struct {
	Source      string       `json:"source"`
	ID          string       `json:"id"` // digest of the archive, or tree id of the folder
	Units       int          `json:"units"`
	Equal       int          `json:"equal"`     // objects
	Different   int          `json:"different"` // objects
	Refused     int          `json:"refused"`   // units that the tool renders and Sluice refuses
	Differences []Difference `json:"differences,omitempty"`
	NotCompared []Reason     `json:"notCompared,omitempty"` // units that neither side, or the tool alone, cannot render
}

// Difference is a unit or an object that differs, or Count of them with one cause. Cause is never empty.
type Difference struct {
	What  string `json:"what"`
	Cause string `json:"cause"`
	Count int    `json:"count"`
}

// Reason says why Count units are not compared.
type Reason struct {
	Count int    `json:"count"`
	Cause string `json:"cause"`
}

// run is one execution of this program.
type run struct {
	ctx    context.Context //nolint:containedctx // one run
	corpus string
	sluice string
	bin    string // directory of helm3, helm4 and kustomize
	flux   string // sluice-reference-flux, "" if it was not built
	argocd string // sluice-reference-argocd, "" if it was not built
	dir    string // temporary
	commit string
	rounds int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := execute(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(1)
	}
}

func execute(ctx context.Context) error {
	results := flag.String("results", "testdata/parity/results.json", "`file` with the results")
	page := flag.String("page", "docs/parity.md", "`file` to write the page to")
	only := flag.String("only", "", "only these parts, by commas: helm3, helm4, kustomize, flux, argocd, time; page writes the page from the results")
	rounds := flag.Int("rounds", 3, "rounds of each measurement")
	flag.Parse()
	old, err := readResults(*results)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if *only == "page" {
		return old.save(*results, *page)
	}
	dir, err := os.MkdirTemp("", "sluice-parity-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &run{
		ctx: ctx, corpus: cmp.Or(os.Getenv("CORPUS"), "../shared/corpus"), sluice: os.Getenv("SLUICE_BIN"),
		bin: os.Getenv("TOOLS"), dir: dir, rounds: *rounds,
		flux: os.Getenv("REFERENCE_FLUX"), argocd: os.Getenv("REFERENCE_ARGOCD"),
	}
	if r.sluice == "" || r.bin == "" {
		return errors.New("SLUICE_BIN and TOOLS are needed: run `make parity`")
	}
	if r.commit, err = r.sluiceCommit(); err != nil {
		return err
	}
	parts := []struct {
		name    string
		compare func() (Part, error)
	}{
		{"helm3", func() (Part, error) { return r.charts(3) }},
		{"helm4", func() (Part, error) { return r.charts(4) }},
		{"kustomize", r.roots},
		{"flux", r.fluxRepositories},
		{"argocd", r.argocdRepositories},
	}
	for _, p := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		part, err := p.compare()
		if errors.Is(err, errNoTool) {
			fmt.Printf("%s: %v; the results of the last run stay\n", p.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		part.Name, part.Commit, part.Date = p.name, r.commit, time.Now().UTC().Format(time.DateOnly)
		old.put(part)
	}
	if *only == "" || slices.Contains(strings.Split(*only, ","), "time") {
		if old.Times, err = r.times(); err != nil {
			return fmt.Errorf("time: %w", err)
		}
	}
	return old.save(*results, *page)
}

// save writes the results and the page.
func (r *Results) save(results, page string) error {
	r.explain()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(results), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(results, append(text, '\n'), 0o644), os.WriteFile(page, []byte(r.page()), 0o644))
}

// errNoTool says that the tool of a part is not on this machine.
var errNoTool = errors.New("its tool is not on this machine")

func readResults(file string) (*Results, error) {
	out := &Results{}
	text, err := os.ReadFile(file)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return out, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// put replaces the part of the same name.
func (r *Results) put(p Part) {
	i := slices.IndexFunc(r.Parts, func(o Part) bool { return o.Name == p.Name })
	if i < 0 {
		r.Parts = append(r.Parts, p)
		return
	}
	r.Parts[i] = p
}

// sluiceCommit returns the commit that the binary names.
func (r *run) sluiceCommit() (string, error) {
	out, err := r.command(r.dir, r.sluice, "version")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out.stdout) {
		if rest, ok := strings.CutPrefix(line, "commit "); ok {
			return rest[:min(len(rest), 12)], nil
		}
	}
	return "", fmt.Errorf("%s names no commit: %s", r.sluice, out.stdout)
}

// output is what a command wrote and needed.
type output struct {
	stdout, stderr string
	wall, cpu      time.Duration // cpu: of the command and its children, user and system
	peak           int64         // bytes of memory of its largest process
}

// command runs a program without the user's settings. Only Sluice, which is offline, finds git, so that no tool fetches
// anything. A command that exits with a failure is an *exec.ExitError beside its output.
func (r *run) command(dir, name string, args ...string) (output, error) {
	home := filepath.Join(r.dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return output{}, err
	}
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir = dir
	path := r.bin
	if name == r.sluice {
		path = strings.Join([]string{os.Getenv("PATH"), filepath.Dir(r.flux), filepath.Dir(r.argocd)},
			string(os.PathListSeparator))
	}
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + path, "SLUICE_OFFLINE=1", "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home,
		"HELM_DATA_HOME=" + home, "TMPDIR=" + cmp.Or(os.Getenv("TMPDIR"), "/tmp"),
	}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	out := output{stdout: stdout.String(), stderr: stderr.String(), wall: time.Since(start)}
	if s := cmd.ProcessState; s != nil {
		out.cpu = s.UserTime() + s.SystemTime()
		if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
			out.peak = usage.Maxrss << 10
		}
	}
	return out, err
}

// failed tells a command that ran and failed from one that could not run.
func failed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() > 0
}

// must is what a command writes that may not fail.
func (r *run) must(dir, name string, args ...string) (string, error) {
	out, err := r.command(dir, name, args...)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out.stderr)
	}
	return strings.TrimSpace(out.stdout), nil
}

// machine describes where the times were measured.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	model := ""
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d processors%s", runtime.NumCPU(), model)
}
