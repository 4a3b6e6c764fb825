package bot

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// The digest from the webhook decides, whatever the forge's times are, because reactions may change them. Without a
// digest, the times decide.
func TestEdited(t *testing.T) {
	at := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		body, told string
		updated    time.Time
		want       bool
	}{
		"as it was, told": {"/sluice help", "/sluice help", at, false},
		"as it was, with other breaks": {
			"/sluice help\r\n/sluice status\r\n", "/sluice help\n/sluice status", at,
			false,
		},
		"a reaction moved the time": {"/sluice help", "/sluice help", at.Add(time.Minute), false},
		"edited within the second":  {"/sluice approve prod", "Looks good", at, true},
		"as it was, not told":       {"/sluice help", "", at, false},
		"edited, not told":          {"/sluice help", "", at.Add(time.Second), true},
		"the forge tells no time":   {"/sluice help", "", time.Time{}, false},
	} {
		told := c.told
		if told != "" {
			told = forge.TextDigest(told)
		}
		if got := edited(&forge.Comment{Body: c.body, Created: at, Updated: c.updated}, told); got != c.want {
			t.Errorf("%s: edited is %t", name, got)
		}
	}
}
