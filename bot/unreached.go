package bot

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// A review that lacks content of another repository or a chart, because a server could not be reached, is incomplete, and no webhook says
// when the server is back. A sweep repeats it. The wait doubles each time, and the number is bounded, because content that is gone for good
// looks the same. A comment that stays equal is not written again; see publish.Review.
const (
	firstRepeat = 5 * time.Minute
	mostRepeats = 9 // the last one after about 21 hours, 43 hours in all
)

// unreachedKey is the subject of the repetitions of a verdict. The state is the number of repetitions, the time of the next one and the head.
func unreachedKey(number int, verdict string) string {
	return fmt.Sprintf("unreached/%d/%s", number, verdict)
}

// noteUnreached remembers whether a review of a head lacked something, and when to repeat it. A review before that time, such as one of a trunk
// that moved, is no repetition.
func noteUnreached(j *job, mr *forge.MergeRequest, verdict string, lacks bool) {
	key := unreachedKey(mr.Number, verdict)
	if !lacks {
		j.remember(key, "")
		return
	}
	repeats := 0
	if have, next, head, ok := unreached(j, mr.Number, verdict); ok && head == mr.Head {
		if j.Clock().Before(next) {
			return
		}
		repeats = have + 1
	}
	next := j.Clock().Add(firstRepeat << min(repeats, mostRepeats))
	j.remember(key, fmt.Sprintf("%d %d %s", repeats, next.Unix(), mr.Head))
}

// repeatsUnreached reports whether it is time to repeat a review of the head that lacked something.
func repeatsUnreached(j *job, mr *forge.MergeRequest, verdict string) bool {
	repeats, next, head, ok := unreached(j, mr.Number, verdict)
	return ok && head == mr.Head && repeats < mostRepeats && !j.Clock().Before(next)
}

func unreached(j *job, number int, verdict string) (repeats int, next time.Time, head string, ok bool) {
	fields := strings.Fields(j.recall(unreachedKey(number, verdict)))
	if len(fields) != 3 { //nolint:mnd // see unreachedKey
		return 0, next, "", false
	}
	repeats, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, next, "", false
	}
	seconds, err := strconv.ParseInt(fields[1], 10, 64)
	return repeats, time.Unix(seconds, 0), fields[2], err == nil
}
