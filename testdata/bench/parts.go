package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// parts divides this machine into equal parts, by the quotas of control groups: cgroup(7) of version 1 or 2, for which
// root is needed. So four processes of "one processor each" can be compared with one on a machine with two processors,
// where everything takes longer then.
type parts struct {
	share  float64 // of a processor, for each part
	second bool    // version 2
	folder string  // of the groups
	before string  // group of this process
	made   []string
}

// newParts divides the machine into n parts without processes.
func newParts(n int) (*parts, error) {
	const root = "/sys/fs/cgroup"
	const used = 0.9 // of the machine
	p := &parts{share: min(1, used*float64(runtime.NumCPU())/float64(n)), folder: filepath.Join(root, "cpu")}
	controllers := "cpu"
	if enabled, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); err == nil &&
		slices.Contains(strings.Fields(string(enabled)), "cpu") {
		p.folder, p.second, controllers = root, true, ""
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(own)) { // 4:cpu,cpuacct:/path
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 &&
			slices.Contains(strings.Split(f[1], ","), controllers) {
			p.before = filepath.Join(p.folder, f[2])
		}
	}
	if p.before == "" {
		return nil, errors.New("this process has no control group of processors")
	}
	for i := range n {
		if err := p.add(fmt.Sprintf("sluice-bench-%d-%d", os.Getpid(), i)); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

func (p *parts) add(name string) error {
	dir := filepath.Join(p.folder, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	p.made = append(p.made, dir)
	const period = 10 * time.Millisecond // the wait of a process that has used its quota: about a time slice of Linux
	// Ten times the usual weight, because others may use the machine.
	quota := int64(p.share * float64(period.Microseconds()))
	files := map[string]string{"cpu.cfs_period_us": fmt.Sprint(period.Microseconds()),
		"cpu.cfs_quota_us": fmt.Sprint(quota), "cpu.shares": fmt.Sprint(10 * 1024)}
	if p.second {
		files = map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period.Microseconds()),
			"cpu.weight": fmt.Sprint(10 * 100)}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// list returns the file that lists the processes of a part. Who writes a process into it moves the process there, with
// all that it starts later.
func (p *parts) list(i int) string { return filepath.Join(p.made[i], "cgroup.procs") }

// enter moves this process into a part. leave moves it out.
func (p *parts) enter(i int) error { return os.WriteFile(p.list(i), []byte("0"), 0o600) }

func (p *parts) leave() error {
	return os.WriteFile(filepath.Join(p.before, "cgroup.procs"), []byte("0"), 0o600)
}

// close removes the parts. Their processes must have ended.
func (p *parts) close() error {
	errs := []error{p.leave()}
	for _, dir := range p.made {
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}
