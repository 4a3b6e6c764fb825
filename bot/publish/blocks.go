package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/report"
)

// The comment is the review, followed by blocks that survive the next review: the environments that run the merged
// commit, the log of commands, and who was asked for a review. A delimiter of a block is a whole line; the report never begins a line with one.
const (
	blockRollout = "rollout"
	blockLog     = "log"
	blockWaits   = "waits" // removed by the next review
	blockAsked   = "asked" // who was asked for a review; hidden
	logRows      = 20
)

func opening(name string) string { return "<!-- sluice-" + name + " -->" }
func closing(name string) string { return "<!-- /sluice-" + name + " -->" }

// block returns the text of a block of a comment; "" if there is none.
func block(body, name string) string {
	_, rest, ok := strings.Cut("\n"+strings.ReplaceAll(body, "\r\n", "\n"), "\n"+opening(name)+"\n")
	if !ok {
		return ""
	}
	text, _, ok := strings.Cut(rest, "\n"+closing(name))
	if !ok {
		return ""
	}
	return text
}

// blocks returns the blocks of a comment that survive a new review.
func blocks(body string) string {
	var out strings.Builder
	for _, name := range []string{blockRollout, blockLog, blockAsked} {
		if text := block(body, name); text != "" {
			out.WriteString("\n" + opening(name) + "\n" + text + "\n" + closing(name) + "\n")
		}
	}
	return out.String()
}

// withBlock replaces or adds a block. The body may have lost the whitespace at its end: GitLab removes it from every
// note.
func withBlock(body, name, text string) string {
	body = strings.TrimRight(strings.ReplaceAll(body, "\r\n", "\n"), "\n") + "\n"
	next := "\n" + opening(name) + "\n" + strings.Trim(text, "\n") + "\n" + closing(name) + "\n"
	old := block(body, name)
	if old == "" {
		return body + next
	}
	return strings.Replace(body, "\n"+opening(name)+"\n"+old+"\n"+closing(name)+"\n", next, 1)
}

// Rollout updates the block about environments in the comment, and creates the comment if there is none.
func Rollout(ctx context.Context, f Forge, repo forge.Repository, number int, id string,
	rows []report.RolloutRow, warning string,
) error {
	return edit(ctx, f, repo, number, id, func(body string) string {
		return withBlock(body, blockRollout,
			report.RolloutBlock(rows, warning))
	})
}

// Log adds the outcomes of a comment's commands to the log and records the comment as handled.
func Log(ctx context.Context, f Forge, repo forge.Repository, number int, comment int64,
	entries ...report.CommandEntry,
) error {
	return edit(ctx, f, repo, number, "", func(body string) string {
		old := block(body, blockLog)
		if slices.Contains(logged(old), comment) {
			return body
		}
		done := append(logged(old), comment)
		done = done[max(0, len(done)-maxHandled):]
		text := report.LogBlock(entries, report.LogRows(old), logRows)
		return withBlock(body, blockLog, doneLine(done)+text)
	})
}

// Forget records a comment as not handled, so that Log accepts the outcomes of another attempt.
func Forget(ctx context.Context, f Forge, repo forge.Repository, number int, comment int64) error {
	return edit(ctx, f, repo, number, "", func(body string) string {
		old := block(body, blockLog)
		done := logged(old)
		i := slices.Index(done, comment)
		if i < 0 {
			return body
		}
		_, rest, _ := strings.Cut(strings.TrimLeft(old, "\n"), "\n")
		return withBlock(body, blockLog, doneLine(slices.Delete(done, i, i+1))+rest)
	})
}

// doneLine is the first line of the log. logged reads it.
func doneLine(done []int64) string {
	words := make([]string, len(done))
	for i, n := range done {
		words[i] = strconv.FormatInt(n, 10)
	}
	return donePrefix + strings.Join(words, " ") + lineSuffix + "\n"
}

// Answer creates a separate comment for an id, once. If the comment exists, it does not call text.
func Answer(ctx context.Context, f Forge, repo forge.Repository, number int, id string,
	text func() (string, error),
) error {
	own, err := find(ctx, f, repo, number, id)
	if err != nil || len(own) > 0 && marked(own[0]) {
		return err
	}
	body, err := text()
	if err != nil {
		return err
	}
	return create(ctx, f, repo, number, id, report.Marker(report.MarkerInfo{ID: id})+"\n"+body)
}

// Retire replaces the review in a comment by the reason why it is no longer updated. It creates no comment.
func Retire(ctx context.Context, f Forge, repo forge.Repository, number int, id, why string) error {
	own, err := one(ctx, f, repo, number, id)
	if err != nil || own == nil || !marked(*own) {
		return err
	}
	body := report.Marker(report.MarkerInfo{ID: id}) + "\n" + report.Heading + "no longer reviewed\n\n" + why + "\n" +
		blocks(own.Body)
	if strings.TrimSpace(strings.ReplaceAll(own.Body, "\r\n", "\n")) == strings.TrimSpace(body) {
		return nil
	}
	return f.EditComment(ctx, repo, number, own.ID, body)
}

// Waits writes into the comment that a head waits for trust, and since when the merge request has this head. The time
// does not change while the head stays; a head that returns after another one counts as new.
func Waits(ctx context.Context, f Forge, repo forge.Repository, number int, head string, since time.Time) error {
	return edit(ctx, f, repo, number, "", func(body string) string {
		if have, _ := waiting(body); have == head {
			return body
		}
		return withBlock(body, blockWaits,
			fmt.Sprintf("%s%s %s%s\n⏳ Sluice does not render `%.10s`, because its author has no write access. Someone with write access who has read the change can comment `/sluice trust`.",
				waitsPrefix, head, since.UTC().Format(time.RFC3339Nano), lineSuffix, head))
	})
}

// Waiting returns the head that waits for trust, and since when the merge request has it; "" if none waits.
func Waiting(ctx context.Context, f Forge, repo forge.Repository, number int) (head string, since time.Time,
	err error,
) {
	own, err := find(ctx, f, repo, number, "")
	if err != nil || len(own) == 0 {
		return "", time.Time{}, err
	}
	head, since = waiting(own[0].Body)
	return head, since, nil
}

// waiting reads what Waits wrote; "" if nothing waits.
func waiting(body string) (head string, since time.Time) {
	line, _, _ := strings.Cut(strings.TrimLeft(block(body, blockWaits), "\n"), "\n")
	line, ok := strings.CutPrefix(strings.TrimSpace(line), waitsPrefix)
	head, text, _ := strings.Cut(strings.TrimSuffix(line, lineSuffix), " ")
	since, err := time.Parse(time.RFC3339Nano, text)
	if !ok || err != nil {
		return "", time.Time{}
	}
	return head, since
}

// maxHandled is the number of comments that the log records as handled. It forgets the oldest.
const maxHandled = 200

// The first line of the log lists the handled comments; that of blockWaits names the head and the time.
const (
	donePrefix  = "<!-- done "
	askedPrefix = "<!-- keys "
	waitsPrefix = "<!-- head "
	lineSuffix  = " -->"
)

// logged returns the IDs of the comments that the block of the log records as handled.
func logged(log string) []int64 {
	line, _, _ := strings.Cut(strings.TrimLeft(log, "\n"), "\n")
	list, ok := strings.CutPrefix(line, donePrefix)
	if !ok {
		return nil
	}
	var out []int64
	for word := range strings.FieldsSeq(strings.TrimSuffix(list, lineSuffix)) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Asked returns the keys of Options.Asked that the comment has; none if there is no comment.
func Asked(ctx context.Context, f Forge, repo forge.Repository, number int, id string) ([]string, error) {
	own, err := find(ctx, f, repo, number, id)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range own {
		out = append(out, asked(c.Body)...)
	}
	return out, nil
}

// asked reads the keys of a comment.
func asked(body string) []string {
	list, ok := strings.CutPrefix(strings.TrimSpace(block(body, blockAsked)), askedPrefix)
	if !ok {
		return nil
	}
	return strings.Fields(strings.TrimSuffix(list, lineSuffix))
}

// withAsked adds keys to a body.
func withAsked(body string, keys []string) string {
	all := asked(body)
	for _, key := range keys {
		if !slices.Contains(all, key) {
			all = append(all, key)
		}
	}
	if len(all) == len(asked(body)) {
		return body
	}
	return withBlock(body, blockAsked, askedPrefix+strings.Join(all, " ")+lineSuffix)
}

// Handled returns the comments whose commands are handled, from the log in Sluice's own comment.
func Handled(self forge.User, all []forge.Comment) []int64 { return handledIn(own(self, all, "")) }

// handledIn reads all of Sluice's own comments: two processes may have created one each.
func handledIn(mine []forge.Comment) []int64 {
	var out []int64
	for _, c := range mine {
		out = append(out, logged(block(c.Body, blockLog))...)
	}
	return out
}

// edit changes the comment, or creates it. It writes only if the text changes.
func edit(ctx context.Context, f Forge, repo forge.Repository, number int, id string,
	change func(body string) string,
) error {
	own, err := one(ctx, f, repo, number, id)
	if err != nil {
		return err
	}
	if own == nil {
		return create(ctx, f, repo, number, id, change(report.Marker(report.MarkerInfo{ID: id})))
	}
	old := strings.ReplaceAll(own.Body, "\r\n", "\n")
	body := change(old)
	if !marked(*own) {
		body = report.Marker(report.MarkerInfo{ID: id}) + "\n" + body
	}
	if strings.TrimSpace(body) == strings.TrimSpace(old) {
		return nil
	}
	err = f.EditComment(ctx, repo, number, own.ID, body)
	if errors.Is(err, forge.ErrTooLong) { // drop the review; without its digest, Comment writes it again
		var marker string
		if info, ok := report.ParseMarker(old); ok {
			info.Digest = ""
			marker = report.Marker(info)
		}
		return f.EditComment(ctx, repo, number, own.ID, change(marker+"\n"+blocks(old)))
	}
	return err
}
