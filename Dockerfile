# attnviz in a container: docker build -t attnviz . && docker run --rm -p 127.0.0.1:8501:8501 attnviz
FROM python:3.11-slim

RUN useradd --create-home attnviz
WORKDIR /home/attnviz/app
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY app.py ./
COPY .streamlit .streamlit
COPY attnviz attnviz
COPY assets assets

USER attnviz
EXPOSE 8501
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=3)"]
# Inside the container every interface; `docker run -p 127.0.0.1:8501:8501` keeps it on this machine.
CMD ["streamlit", "run", "app.py", "--server.address", "0.0.0.0", "--server.headless", "true"]
