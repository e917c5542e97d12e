package validate

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	repository = "../.."
	pageFile   = "docs/kubernetes.md"
)

// programs is the directory with memoryd and memoryctl.
var programs string

// TestMain builds memoryd and memoryctl, or takes those in the directory MEMORYD_BIN. They are copied to where any user
// can run them, since the tests run them as the manifests say where they may.
func TestMain(m *testing.M) {
	status, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func runTests(m *testing.M) (status int, err error) {
	programs, err = os.MkdirTemp("", "memoryd-validate-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	if err := os.Chmod(programs, 0o755); err != nil {
		return 0, err
	}
	from := os.Getenv("MEMORYD_BIN")
	if from == "" {
		build := exec.Command("go", "build", "-o", programs+"/", "./cmd/memoryd", "./cmd/memoryctl")
		build.Dir = repository
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build memoryd: %w\n%s", err, out)
		}
		return m.Run(), nil
	}
	for _, name := range []string{"memoryd", "memoryctl"} {
		program, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return 0, fmt.Errorf("MEMORYD_BIN: %w", err)
		}
		if err := os.WriteFile(filepath.Join(programs, name), program, 0o755); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// deployFiles returns the files of deploy/.
func deployFiles(t *testing.T) Files {
	t.Helper()
	files, err := ReadFiles(os.DirFS(filepath.Join(repository, "deploy")))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// page returns docs/kubernetes.md.
func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// settings returns the settings of memoryd by their environment variables, with their defaults.
func settings(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "memoryd"), "config")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("memoryd config: %v", err)
	}
	all := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[2] == "default" {
			all["MEMORYD_"+strings.ToUpper(strings.ReplaceAll(fields[0], "-", "_"))] = strings.Trim(fields[1], `"`)
		}
	}
	if len(all) < 30 {
		t.Fatalf("memoryd config has %d settings:\n%s", len(all), out)
	}
	return all
}

// newKubernetes returns what manifests are checked against. The claims of the shared service are there for its restore.
func newKubernetes(t *testing.T) Kubernetes {
	t.Helper()
	given := GivenBy(page(t))
	for _, claim := range []string{"data-memoryd-0", "memoryd-backups"} {
		given[Given{"PersistentVolumeClaim", claim}] = nil
	}
	return Kubernetes{Settings: settings(t), Given: given}
}

// overlay is a kustomization of the base with all components, which the example lets its reader choose.
func overlay(files Files) (withOverlay Files, dir string) {
	withOverlay = maps.Clone(files)
	text := files["kubernetes/example/kustomization.yaml"]
	for _, line := range componentLines(files) {
		text = strings.Replace(text, "  # - "+line, "  - "+line, 1)
	}
	withOverlay["kubernetes/overlay/kustomization.yaml"] = text
	return withOverlay, "kubernetes/overlay"
}

// componentLines are the components as the example names them.
func componentLines(files Files) []string {
	var lines []string
	for name := range files {
		if dir, ok := strings.CutPrefix(path.Dir(name), "kubernetes/components/"); ok {
			lines = append(lines, "../components/"+dir)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// kustomizations are the directories that "kubectl apply -k" is for.
func kustomizations(files Files) []string {
	var dirs []string
	for name, content := range files {
		if path.Base(name) == "kustomization.yaml" && strings.Contains(content, "\nkind: Kustomization\n") {
			dirs = append(dirs, path.Dir(name))
		}
	}
	slices.Sort(dirs)
	return dirs
}

func mustBuild(t *testing.T, files Files, dir string) []runtime.Object {
	t.Helper()
	objects, err := Build(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestKubernetes checks every kustomization, and the components in one.
func TestKubernetes(t *testing.T) {
	k := newKubernetes(t)
	files, all := overlay(deployFiles(t))
	for _, line := range componentLines(files) {
		if !strings.Contains(files[all+"/kustomization.yaml"], "\n  - "+line+"\n") {
			t.Errorf("the example does not name the component %s", line)
		}
	}
	dirs := kustomizations(files)
	if len(dirs) < 5 {
		t.Fatalf("got %q", dirs)
	}
	for _, dir := range dirs {
		t.Run(path.Base(dir), func(t *testing.T) {
			if err := k.Check(mustBuild(t, files, dir)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKubernetes_Placeholder checks that manifests name memoryd by the placeholder, so that "images" replaces them all.
func TestKubernetes_Placeholder(t *testing.T) {
	files := deployFiles(t)
	for _, dir := range kustomizations(files) {
		images := strings.ReplaceAll(files[dir+"/kustomization.yaml"], "newName: memoryd", "newName: example.com/memoryd")
		if !strings.Contains(images, "\nimages:\n") {
			images += "images: [{name: memoryd, newName: example.com/memoryd}]\n"
		}
		renamed := maps.Clone(files)
		renamed[dir+"/kustomization.yaml"] = images
		containers, err := newKubernetes(t).Containers(mustBuild(t, renamed, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			if want := "example.com/memoryd:v0.0.0"; c.IsMemoryd() && c.Image != want {
				t.Errorf("%s: got image %s, want %s", c.Name, c.Image, want)
			}
		}
	}
}

// TestCompose checks the compose file.
func TestCompose(t *testing.T) {
	if _, err := Compose(t.Context(), deployFiles(t), settings(t)); err != nil {
		t.Error(err)
	}
}

// TestDocs checks that the directories which docs/kubernetes.md applies can be built, and that its example of a caller
// is one.
func TestDocs(t *testing.T) {
	files := deployFiles(t)
	dirs := kustomizations(files)
	applied := 0
	for line := range strings.Lines(page(t)) {
		if _, dir, ok := strings.Cut(strings.TrimSpace(line), " -k deploy/"); ok && strings.HasPrefix(line, "kubectl ") {
			applied++
			if !slices.Contains(dirs, dir) {
				t.Errorf("%s: there is no deploy/%s", strings.TrimSpace(line), dir)
			}
		}
	}
	if applied < 3 {
		t.Errorf("%d directories are applied", applied)
	}

	decoder, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	objects := mustBuild(t, files, "kubernetes/base")
	given := GivenBy(page(t))
	pods := 0
	for _, block := range Blocks(page(t), "yaml") {
		object, _, err := decoder.Decode([]byte(block), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if pod, ok := object.(*corev1.Pod); ok {
			pods++
			checkCaller(t, pod, objects, given)
		}
	}
	if pods != 1 {
		t.Errorf("%d pods are shown, want one", pods)
	}
}

// TestDocs_Rules checks that the command of docs/kubernetes.md makes an object of the alert rules.
func TestDocs_Rules(t *testing.T) {
	_, rest, _ := strings.Cut(page(t), "kubectl apply -f <(")
	script, _, found := strings.Cut(rest, ")\n")
	if !found {
		t.Fatal("the page has no such command")
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = repository
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	object, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if rules, ok := object.(*monitoringv1.PrometheusRule); !ok || len(rules.Spec.Groups) == 0 {
		t.Errorf("got %+v, want a PrometheusRule with groups", object)
	}
}

// checkCaller checks that a pod may reach the shared service, and has what it takes.
func checkCaller(t *testing.T, pod *corev1.Pod, objects []runtime.Object, given map[Given]map[string]string) {
	t.Helper()
	var found problems
	if err := admit(pod); err != nil {
		found.add("%w", err)
	}
	c := Kubernetes{Given: given}.newCluster(objects)
	c.checkCaller(pod, &found)
	if err := found.err(); err != nil {
		t.Error(err)
	}
}
