package fleet

import (
	"bytes"
	"context"
)

// maxUnread limits the files that are read to look for one that a fleet with spec.import does not read.
const maxUnread = 20

// notRead warns about files of Sluice's in a conventional place that a fleet with spec.import does not read, because
// spec.files does not name them. Whoever adds spec.import to a fleet may not expect that all its apps go.
func notRead(ctx context.Context, l *loader, named []string, field, conventional string) {
	if len(named) > 0 {
		return
	}
	g, err := parseGlob(conventional)
	if err != nil {
		return // the pattern is a constant
	}
	names, err := walkGlobs(ctx, l.tree, []glob{g})
	if err != nil {
		return // nothing needs the folder
	}
	for _, name := range names[:min(len(names), maxUnread)] {
		if data, err := l.tree.ReadFile(name); err == nil && bytes.Contains(data, []byte("apiVersion: sluice.dev/")) {
			l.warnf(l.file, []string{"spec", "import"}, "add "+conventional+" to "+field+
				" if the fleet needs them, or remove them",
				"a fleet with spec.import does not read %s, such as %s", conventional, name)
			return
		}
	}
}
