package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder takes the place of a control group's, because most test machines have none to write.
func TestPartsShareTheMachineEqually(t *testing.T) {
	for _, second := range []bool{false, true} {
		dir := t.TempDir()
		p := &parts{share: 0.4, second: second, folder: dir, before: dir}
		if err := p.add("one"); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "4000"}
		if second {
			want = map[string]string{"cpu.max": "4000 10000"}
		}
		for name, text := range want {
			if have, err := os.ReadFile(filepath.Join(dir, "one", name)); err != nil || string(have) != text {
				t.Errorf("%s is %q (%v), want %q", name, have, err, text)
			}
		}
		if have := p.list(0); have != filepath.Join(dir, "one", "cgroup.procs") {
			t.Errorf("the processes of the part are in %s", have)
		}
	}
}
