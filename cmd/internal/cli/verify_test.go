package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/verify"
)

// Only branches that somebody else changed exit 3. A branch that cannot be verified exits 1, even if another one
// differs.
func TestVerifyExitStatuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []string
		want     int
	}{
		"verified":                    {[]string{verify.StatusOK, verify.StatusOK}, ExitOK},
		"behind, as planned":          {[]string{verify.StatusOK, verify.StatusBehind}, ExitOK},
		"missing, not asked for":      {[]string{verify.StatusOK, "-", verify.StatusMissing}, ExitOK},
		"missing, asked for":          {[]string{verify.StatusMissing}, ExitFailed},
		"somebody changed a file":     {[]string{verify.StatusBehind, verify.StatusDiffers}, ExitDiffers},
		"unsigned":                    {[]string{verify.StatusUnsigned}, ExitDiffers},
		"not on the trunk":            {[]string{verify.StatusUnmerged}, ExitDiffers},
		"an exception is unproven":    {[]string{verify.StatusUnproven}, ExitFailed},
		"unproven before a tampering": {[]string{verify.StatusUnproven, verify.StatusUnmerged}, ExitDiffers},
		"unproven after a tampering":  {[]string{verify.StatusUnsigned, verify.StatusUnproven}, ExitDiffers},
		"failed beside a tampering":   {[]string{verify.StatusDiffers, verify.StatusFailed}, ExitFailed},
	} {
		var found []verify.Verification
		v := verifyOptions{environments: []string{"e0", "e1"}}
		for i, s := range c.statuses {
			found = append(found, verify.Verification{Environment: "e" + string(rune('0'+i)), Status: s})
		}
		err := v.status(found)
		code := ExitOK
		if exit, ok := errors.AsType[*exitError](err); ok {
			code = exit.code
		}
		if code != c.want {
			t.Errorf("%s: the status code is %d, want %d", name, code, c.want)
		}
	}
}

func TestVerificationsArePrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printVerification(&out, []verify.Verification{{
		Branch: "env/prod", Source: "0123456789abcdef", Status: verify.StatusBehind, Exceptions: []string{"feedc0de"},
		Behind:   []verify.Behind{{Branch: "cluster/a", Source: "1111111111", Reason: "freeze by ana: audit\x1b[2J"}},
		Held:     []string{"api at 2222222222"},
		Unsigned: []verify.Signature{{Branch: "cluster/b", Commit: "3333333333", Reason: "it is not signed"}},
	}, {Branch: "env/dev", Status: verify.StatusDiffers, Differences: []verify.Difference{{
		Branch: "env/dev",
		Path:   "dev-1/x.yaml", Effect: "added",
	}}}})
	want := `env/prod behind, rendered from 0123456789
  unsigned  cluster/b 3333333333: it is not signed
  exception feedc0de was written although the trunk did not contain it, as the branch records
  behind  cluster/a runs 1111111111, as planned: freeze by ana: audit\x1b[2J
  held    api at 2222222222
env/dev differs
  added   env/dev:dev-1/x.yaml
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
