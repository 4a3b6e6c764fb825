package app_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources are the source commits of an environment branch's commits, oldest first.
func (s *story) sources(branch string) []string {
	out, err := exec.CommandContext(context.Background(), "git", "-C", filepath.Join(s.dir, "git", repo+".git"), "log", "--reverse", "--first-parent",
		"--format=%(trailers:key=Sluice-Source,valueonly)", "refs/heads/"+branch).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// TestNobodyWasThere: what happened while there was no service is made up for, though no webhook tells of it: every commit of the
// trunk, what was closed, and what was commanded.
func TestNobodyWasThere(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.drop = func(string) bool { return true }
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		want := []string{s.ref("main")}
		s.branch("cad", "CAD")
		closed := s.open("cad", "ada")
		s.says(closed, "+  currency: CAD")
		preview := fmt.Sprintf("sluice/preview/%d", closed)
		s.until("there is a preview", func() bool { return s.ref(preview) != "" })
		s.end()
		s.shut(closed)
		last := 0
		for _, step := range []string{"first step", "second step", "third step"} {
			last = s.greet(step)
			s.merge(last)
			want = append(want, s.ref("main"))
		}
		s.say(last, "mia", "/sluice help")
		s.start()
		s.until("dev runs the tip", func() bool { return slices.Contains(s.sources("env/dev"), want[len(want)-1]) })
		if got := s.sources("env/dev"); !slices.Equal(got, want) {
			t.Errorf("env/dev has commits of\n%v, and the trunk has\n%v", got, want)
		}
		for _, commit := range want {
			s.until("each commit says so", func() bool { return s.status(commit, "sluice/dev") == "success" })
		}
		s.until("the preview is gone", func() bool { return s.ref(preview) == "" })
		s.until("the command is carried out once", func() bool {
			all := strings.Join(s.comments(last), "\n")
			return len(s.comments(last)) == 2 && strings.Count(all, "| `/sluice help` | `mia` |") == 1
		})
	})
}
