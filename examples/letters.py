#!/usr/bin/python3
"""Commands on a Hawk cluster, from Python. Needs the Python package hawk."""
import hawk

job = hawk.run(["sh", "-c", "echo {} has $(printf %s {} | wc -c) letters"], inputs=["one", "three"])
print([task.output().decode().strip() for task in job.tasks()])
try:
    hawk.run(["sh", "-c", "exit 3"])
except hawk.JobFailed as e:
    print(e)
